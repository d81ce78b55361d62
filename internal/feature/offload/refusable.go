package offload

import (
	"slices"

	"weft/internal/state"
)

// Refusable describes for which flows one refused packet means that the ruleset refuses
// all packets of the flow.
type Refusable struct {
	None    string  // why of none; empty: of all but what follows
	Blocks  []Block // rules that may decide otherwise on the next packet
	answers map[ruleKey]bool
}

// ruleKey is a rule as nftables' tracing names it.
type ruleKey struct {
	family       uint8
	table, chain string
	handle       uint64
}

// Why a flow that was refused is not dropped early.
const (
	WhyAnswers Why = "its rule answers (reject), which the sender is to hear"
	WhyGone    Why = "a connection has begun meanwhile"
)

// refuses returns why a packet's refusal is none of the whole flow; empty: it is.
func (r Refusable) refuses(p state.RefusedPacket) Why {
	if r.None != "" {
		return Why(r.None)
	}
	if r.answers[ruleKey{p.Family, p.Table, p.Chain, p.Rule}] {
		return WhyAnswers
	}
	for _, b := range r.Blocks {
		if b.applies(p.Tuple) {
			return Why(b.Rule + " may decide otherwise on the next packet: " + b.Why)
		}
	}
	return ""
}

// Rules returns the rules that prevent early drop.
func (r Refusable) Rules() (list []string) {
	if r.None != "" {
		list = append(list, r.None)
	}
	for _, b := range r.Blocks {
		list = append(list, b.Rule+" may decide otherwise on the next packet ("+b.Why+")")
	}
	return list
}

// readRefusable judges every rule that packets of no connection may meet,
// wherever it is. One that decides by what packets of a flow do not share is a
// Block, as for flows that pass; one that only counts or logs is none.
func (r *ruleset) readRefusable() Refusable {
	found := Refusable{answers: map[ruleKey]bool{}}
	numbers := map[string]uint8{"inet": 1, "ip": 2, "ip6": 10} // NFPROTO_*
	for _, k := range r.order {
		c := r.chains[k]
		number, ours := numbers[k.family]
		if !ours || c.Hook == "output" {
			continue
		}
		for _, u := range c.rules {
			v := r.readNew(u)
			if v.helper {
				found.None = "the ruleset has helpers, which let in what it refused a moment ago"
			}
			if v.answers {
				found.answers[ruleKey{number, k.table, k.name, uint64(u.Handle)}] = true
			}
			if v.never || !v.decides || v.fickle == "" {
				continue
			}
			b := Block{Rule: name(u), Why: v.fickle, IPv4: v.scope.ipv4, IPv6: v.scope.ipv6, Protocol: v.scope.protocol}
			if (b.IPv4 || b.IPv6) && !slices.Contains(found.Blocks, b) {
				found.Blocks = append(found.Blocks, b)
			}
		}
	}
	return found
}

// newReading is what one rule is to packets of no connection.
type newReading struct {
	never   bool   // it does not apply to them
	decides bool   // it has a say in what becomes of a packet
	answers bool   // it rejects
	helper  bool   // it gives connections a helper, or expects others
	fickle  string // by what packets of a flow do not share
	scope   scope
}

func (r *ruleset) readNew(u rule) newReading {
	v := newReading{scope: everything(u.Family)}
	for _, statement := range u.Expr {
		for kind, value := range statement {
			r.statementNew(&v, u, kind, value)
		}
	}
	return v
}

func (r *ruleset) statementNew(v *newReading, u rule, kind string, value any) {
	by := func(why string) {
		if v.fickle == "" {
			v.fickle = why
		}
	}
	switch kind {
	case "match":
		r.matchNew(v, u, object(value), by)
	case "counter", "log", "comment":
	case "limit", "quota", "ct count":
		by("it has a " + kind + " statement")
	case "reject":
		v.decides, v.answers = true, true
	case "ct helper", "ct expectation":
		v.decides, v.helper = true, true
	case "accept", "drop", "return", "continue", "notrack", "masquerade", "redirect", "ct timeout", "flow":
		v.decides = true
	case "jump", "goto":
		v.decides = true
	case "snat", "dnat", "mangle", "set":
		v.decides = true
		by(r.fickle(u, object(value)["addr"]))
		by(r.fickle(u, object(value)["value"]))
	case "vmap":
		v.decides = true
		by(r.fickle(u, object(value)["key"]))
		if set, named := object(value)["data"].(string); named {
			by(r.fickle(u, set))
		}
	default:
		v.decides = true
		by("it has a " + kind + " statement")
	}
}

func (r *ruleset) matchNew(v *newReading, u rule, m map[string]any, by func(string)) {
	op, _ := m["op"].(string)
	left := object(m["left"])
	if ct := object(left["ct"]); ct["key"] == "state" {
		has := slices.Contains(words(m["right"]), "new")
		v.never = v.never || has == (op == "!=")
		return
	}
	if _, is := tcpFlags(left); is {
		v.scope.protocol = state.ProtocolTCP // only SYNs are taken, which share them
		return
	}
	narrow(&v.scope, op, left, m["right"])
	by(r.fickle(u, left))
	by(r.fickle(u, m["right"]))
}
