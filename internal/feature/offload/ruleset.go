package offload

import (
	"encoding/json"
	"fmt"
	"slices"

	"weft/internal/state"
)

// ReadRuleset parses nft's JSON (libnftables-json(5)). It gives the rules that flows must
// not bypass, and what a refused packet means for its flow. Once packets of a connection
// have passed, further ones get the same verdict from every rule that matches only what
// they all share: addresses, ports, interfaces, the connection's state and mark. Any
// other rule that established packets reach is a Block, also one that is not understood.
func ReadRuleset(text []byte) (Policy, Refusable, error) {
	var list struct {
		Nftables []map[string]json.RawMessage `json:"nftables"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return Policy{}, Refusable{}, fmt.Errorf("read nft's JSON: %w", err)
	}
	r := &ruleset{chains: map[chainKey]*chain{}, moody: map[chainKey]bool{}, written: map[chainKey]bool{}}
	for _, entry := range list.Nftables {
		if err := r.add(entry); err != nil {
			return Policy{}, Refusable{}, err
		}
	}
	for _, k := range r.order {
		if r.chains[k].forwards() {
			r.walk(r.chains[k], k, everything(k.family), nil)
		}
	}
	policy := r.policy
	return policy, r.readRefusable(), nil
}

type chainKey struct{ family, table, name string }

type chain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Hook   string `json:"hook"`
	rules  []rule
}

type rule struct {
	Family string           `json:"family"`
	Table  string           `json:"table"`
	Chain  string           `json:"chain"`
	Handle int              `json:"handle"`
	Expr   []map[string]any `json:"expr"`
}

type ruleset struct {
	chains map[chainKey]*chain
	order  []chainKey
	moody  map[chainKey]bool // sets whose elements come and go without a word
	// written are those whose elements packets add. Of the others elements only go without a
	// word: what adds one is a change of the ruleset.
	written map[chainKey]bool
	policy  Policy
}

func (r *ruleset) add(entry map[string]json.RawMessage) error {
	switch {
	case entry["chain"] != nil:
		var c chain
		if err := json.Unmarshal(entry["chain"], &c); err != nil {
			return fmt.Errorf("read a chain: %w", err)
		}
		k := chainKey{c.Family, c.Table, c.Name}
		if k.family == "inet" && k.table == state.RefusalTable {
			return nil // weft's own, which decides nothing
		}
		r.chains[k] = &c
		r.order = append(r.order, k)
	case entry["rule"] != nil:
		var u rule
		if err := json.Unmarshal(entry["rule"], &u); err != nil {
			return fmt.Errorf("read a rule: %w", err)
		}
		r.noteTracking(u)
		if u.Family == "inet" && u.Table == state.RefusalTable {
			return nil
		}
		c := r.chains[chainKey{u.Family, u.Table, u.Chain}]
		if c == nil {
			return fmt.Errorf("read a rule: chain %s does not exist", u.Chain)
		}
		c.rules = append(c.rules, u)
		r.noteWritten(u)
	case entry["ct timeout"] != nil:
		r.policy.Timeouts = true
	case entry["set"] != nil, entry["map"] != nil:
		return r.addSet(entry)
	}
	return nil
}

func (r *ruleset) addSet(entry map[string]json.RawMessage) error {
	text := entry["set"]
	if text == nil {
		text = entry["map"]
	}
	var s struct {
		Family, Table, Name string
		Flags               any
		Timeout             any
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read a set: %w", err)
	}
	flags := words(s.Flags)
	if s.Timeout != nil || slices.Contains(flags, "timeout") || slices.Contains(flags, "dynamic") {
		k := chainKey{s.Family, s.Table, s.Name}
		r.moody[k] = true
		r.written[k] = r.written[k] || slices.Contains(flags, "dynamic")
	}
	return nil
}

// forwards reports whether forwarded packets of established connections meet the
// chain. Those of type nat meet only the first packet.
func (c *chain) forwards() bool {
	switch c.Hook {
	case "ingress", "egress", "prerouting", "forward", "postrouting":
		return c.Type != "nat"
	}
	return false
}

// scope is what packets a rule may apply to.
type scope struct {
	ipv4, ipv6 bool
	protocol   uint8
}

func everything(family string) scope {
	return scope{ipv4: family != "ip6", ipv6: family != "ip"}
}

// walk looks at a chain as packets of established connections meet it. It
// gives whether all of them in scope are accepted in it.
func (r *ruleset) walk(c *chain, k chainKey, in scope, within []chainKey) bool {
	if slices.Contains(within, k) {
		return false
	}
	within = append(within, k)
	for _, u := range c.rules {
		v := r.read(u, in)
		if v.never {
			continue
		}
		for _, why := range v.blocks {
			r.block(u, why, v.scope)
		}
		for _, to := range v.jumps {
			next := chainKey{k.family, k.table, to}
			if target := r.chains[next]; target != nil && r.walk(target, next, v.scope, within) && v.all {
				return true
			}
		}
		if v.accepts && v.all {
			return true
		}
	}
	return false
}

func name(u rule) string {
	return fmt.Sprintf("rule %d of chain %s %s %s", u.Handle, u.Family, u.Table, u.Chain)
}

func (r *ruleset) block(u rule, why string, s scope) {
	b := Block{
		Rule: name(u),
		Why:  why, IPv4: s.ipv4, IPv6: s.ipv6, Protocol: s.protocol,
	}
	if (b.IPv4 || b.IPv6) && !slices.Contains(r.policy.Blocks, b) {
		r.policy.Blocks = append(r.policy.Blocks, b)
	}
}

// reading is what one rule is to packets of established connections.
type reading struct {
	never   bool // it does not apply to them
	all     bool // it applies to all in scope
	accepts bool
	jumps   []string
	blocks  []string
	scope   scope
}

func (r *ruleset) read(u rule, in scope) reading {
	v := reading{all: true, scope: in}
	for _, statement := range u.Expr {
		for kind, value := range statement {
			r.statement(&v, u, kind, value)
		}
	}
	return v
}

func (r *ruleset) statement(v *reading, u rule, kind string, value any) {
	switch kind {
	case "match":
		r.match(v, u, object(value))
	case "accept":
		v.accepts = true
	case "jump", "goto":
		target, _ := object(value)["target"].(string)
		v.jumps = append(v.jumps, target)
	case "vmap":
		r.vmap(v, u, object(value))
	case "mangle":
		r.mangle(v, u, object(value))
	case "drop", "reject", "return", "continue", "counter", "notrack", "masquerade", "snat", "dnat", "redirect", "comment", "flow", "ct helper", "ct timeout", "ct expectation":
	default:
		v.blocks = append(v.blocks, "it has a "+kind+" statement")
	}
}

func (r *ruleset) match(v *reading, u rule, m map[string]any) {
	op, _ := m["op"].(string)
	left, right := object(m["left"]), m["right"]
	if ct := object(left["ct"]); ct["key"] == "state" {
		matchState(v, op, words(right))
		return
	}
	if flags, is := tcpFlags(left); is {
		v.scope.protocol = state.ProtocolTCP
		ends := flags && (op == "==" || op == "in") && len(words(right)) > 0
		for _, w := range words(right) {
			ends = ends && slices.Contains([]string{"syn", "fin", "rst"}, w)
		}
		if ends { // such packets are the stack's anyway
			v.never = true
			return
		}
		v.all = false
		v.blocks = append(v.blocks, "it matches flags of TCP")
		return
	}
	v.all = narrow(&v.scope, op, left, right) && v.all
	if why := r.fickle(u, left); why != "" {
		v.blocks = append(v.blocks, why)
	}
	if why := r.fickle(u, right); why != "" && !(op == "==" && r.onlyFewer(u, right)) {
		v.blocks = append(v.blocks, why)
	}
}

// matchState judges a match of the connection's state.
func matchState(v *reading, op string, states []string) {
	has := slices.Contains(states, "established")
	if op == "!=" {
		has = !has
	}
	v.never = v.never || !has
}

// narrow takes what a match says of family or protocol into the scope. It gives
// whether all packets of the scope match.
func narrow(s *scope, op string, left map[string]any, right any) bool {
	meta, _ := object(left["meta"])["key"].(string)
	value, _ := right.(string)
	if op == "==" && meta == "nfproto" && (value == "ipv4" || value == "ipv6") {
		s.ipv4, s.ipv6 = s.ipv4 && value == "ipv4", s.ipv6 && value == "ipv6"
		return true
	}
	if number, known := protocols()[value]; op == "==" && meta == "l4proto" && known {
		s.protocol = number
		return false
	}
	payload, _ := object(left["payload"])["protocol"].(string)
	switch payload {
	case "ip":
		s.ipv6 = false
	case "ip6":
		s.ipv4 = false
	default:
		if number, known := protocols()[payload]; known {
			s.protocol = number
		}
	}
	return false
}

func protocols() map[string]uint8 {
	return map[string]uint8{"tcp": state.ProtocolTCP, "udp": state.ProtocolUDP, "icmp": state.ProtocolICMP, "icmpv6": state.ProtocolICMPv6, "ipv6-icmp": state.ProtocolICMPv6}
}

// tcpFlags reports whether an expression is of TCP's flags.
func tcpFlags(left map[string]any) (plain, is bool) {
	e := left
	if masked, ok := left["&"].([]any); ok && len(masked) > 0 {
		e = object(masked[0])
	}
	p := object(e["payload"])
	return true, p["protocol"] == "tcp" && p["field"] == "flags"
}

// vmap judges a verdict map. Only one by the connection's state is understood
// in full.
func (r *ruleset) vmap(v *reading, u rule, m map[string]any) {
	key := object(m["key"])
	set, _ := object(m["data"])["set"].([]any)
	byState := object(key["ct"])["key"] == "state"
	if why := r.fickle(u, m["key"]); why != "" && !byState {
		v.blocks = append(v.blocks, why)
	}
	if name, named := m["data"].(string); named {
		v.all = false
		v.blocks = append(v.blocks, "it has verdicts in the map "+name)
		return
	}
	if !byState {
		v.all = false
	}
	for _, pair := range set {
		two, _ := pair.([]any)
		if len(two) != 2 {
			continue
		}
		if byState && !slices.Contains(words(two[0]), "established") {
			continue
		}
		for kind, value := range object(two[1]) {
			switch kind {
			case "accept":
				v.accepts = v.accepts || byState
			case "jump", "goto":
				target, _ := object(value)["target"].(string)
				v.jumps = append(v.jumps, target)
			}
		}
	}
}

// mangle judges what a rule writes into packets or connections.
func (r *ruleset) mangle(v *reading, u rule, m map[string]any) {
	key := object(m["key"])
	ct, _ := object(key["ct"])["key"].(string)
	meta, _ := object(key["meta"])["key"].(string)
	switch {
	case ct == "zone":
		number, ok := m["value"].(float64)
		if !ok {
			v.blocks = append(v.blocks, "it takes zones of connection tracking from a map")
		} else if zone := uint16(number); zone != 0 && !slices.Contains(r.policy.Zones, zone) {
			r.policy.Zones = append(r.policy.Zones, zone)
		}
	case ct == "mark", meta == "mark", meta == "nftrace":
	default:
		v.blocks = append(v.blocks, "it changes packets")
	}
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// words returns the strings in a value, however nested.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, part := range v {
			all = append(all, words(part)...)
		}
		return all
	case map[string]any:
		var all []string
		for _, part := range v {
			all = append(all, words(part)...)
		}
		return all
	}
	return nil
}
