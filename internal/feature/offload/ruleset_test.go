package offload

import (
	"os"
	"slices"
	"testing"

	"weft/internal/state"
)

// The files are what nft -j -t printed for the rulesets beside them.
func TestReadRuleset(t *testing.T) {
	tcp := state.FlowTuple{Src: four, Dst: four, Protocol: state.ProtocolTCP}
	for _, tt := range []struct {
		file  string
		why   []string // of the blocks
		zones []uint16
	}{
		{"home", nil, nil},
		{"order", nil, nil},
		{"narrow", []string{"it has a log statement"}, nil},
		{"limit", []string{
			"it has a limit statement",
			"it matches meta hour", "it changes packets",
		}, []uint16{7}},
	} {
		text, err := os.ReadFile("testdata/ruleset/" + tt.file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := ReadRuleset(text)
		if err != nil {
			t.Fatal(err)
		}
		var why []string
		for _, b := range p.Blocks {
			why = append(why, b.Why)
		}
		slices.Sort(why)
		want := slices.Sorted(slices.Values(tt.why))
		if !slices.Equal(why, want) || !slices.Equal(p.Zones, tt.zones) {
			t.Errorf("%s: blocks %q, want %q; zones %d", tt.file, why, want, p.Zones)
		}
		if blocked := p.refuses(tcp) != ""; blocked != (len(tt.why) > 0) {
			t.Errorf("%s: a TCP flow of IPv4 is blocked: %v", tt.file, blocked)
		}
	}
}

func TestBlocksAreNarrow(t *testing.T) {
	b := Block{IPv4: true, Protocol: state.ProtocolUDP}
	for _, tt := range []struct {
		tuple state.FlowTuple
		want  bool
	}{
		{state.FlowTuple{Src: four, Protocol: state.ProtocolUDP}, true},
		{state.FlowTuple{Src: four, Protocol: state.ProtocolTCP}, false},
		{state.FlowTuple{Src: six, Protocol: state.ProtocolUDP}, false},
	} {
		if b.applies(tt.tuple) != tt.want {
			t.Errorf("%s: %v", tt.tuple, !tt.want)
		}
	}
	if (Policy{Unknown: true}).refuses(state.FlowTuple{}) == "" {
		t.Error("flows are taken while the ruleset is not known")
	}
}

func TestRulesetsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "{", `{"nftables": [{"rule": {"family": "ip", "chain": "x"}}]}`, `{"nftables": [{"chain": 7}]}`} {
		if _, _, err := ReadRuleset([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	unknown := `{"nftables": [
		{"chain": {"family": "ip", "table": "t", "name": "c", "type": "filter", "hook": "forward"}},
		{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 4, "expr": [{"something new": {}}]}}]}`
	if p, _, err := ReadRuleset([]byte(unknown)); err != nil || len(p.Blocks) != 1 || p.Blocks[0].IPv6 {
		t.Errorf("what is not known: %+v, %v", p, err)
	}
}

var (
	four = [16]byte{10: 0xff, 11: 0xff, 12: 10}
	six  = [16]byte{0: 0x20, 1: 1}
)

// One timed set, as CrowdSec and fail2ban have it before the rule for established packets,
// keeps no flow with the stack: time only takes elements out of it, and what adds one is a
// change of the ruleset. Where time, or a packet, can make a rule refuse more, flows stay.
func TestATimedSetOfRefusedAddressesBlocksNoOtherFlow(t *testing.T) {
	match := func(op string) string {
		return `{"match":{"op":"` + op + `","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@bad"}}`
	}
	const drop, accept = `{"drop":null}`, `{"accept":null}`
	add := `{"set":{"op":"add","elem":{"payload":{"protocol":"ip","field":"saddr"}},"set":"@bad"}}`
	for name, c := range map[string]struct {
		flags, rule, later string
		blocks             bool
	}{
		"timed, drop":                    {`["timeout"]`, match("==") + `,{"counter":{"packets":0,"bytes":0}},` + drop, "", false},
		"timed, reject":                  {`["interval","timeout"]`, match("==") + `,{"reject":null}`, "", false},
		"timed, accept":                  {`["timeout"]`, match("==") + "," + accept, "", true},
		"timed, jump":                    {`["timeout"]`, match("==") + `,{"jump":{"target":"forward"}}`, "", true},
		"timed, drop of all but these":   {`["timeout"]`, match("!=") + "," + drop, "", true},
		"packets add, by its flag":       {`["dynamic","timeout"]`, match("==") + "," + drop, "", true},
		"packets add, by a rule":         {`["timeout"]`, match("==") + "," + drop, add, true},
		"timed, and a limit in the rule": {`["timeout"]`, match("==") + `,{"limit":{"rate":1,"per":"second"}},` + drop, "", true},
	} {
		later := ""
		if c.later != "" {
			later = `,{"rule":{"family":"ip","table":"sec","chain":"input","handle":9,"expr":[` + c.later + `]}}`
		}
		text := `{"nftables":[{"table":{"family":"ip","name":"sec"}},{"set":{"family":"ip","table":"sec","name":"bad","type":"ipv4_addr","flags":` + c.flags + `}},
			{"chain":{"family":"ip","table":"sec","name":"input","type":"filter","hook":"input"}},
			{"chain":{"family":"ip","table":"sec","name":"forward","type":"filter","hook":"forward"}},
			{"rule":{"family":"ip","table":"sec","chain":"forward","handle":4,"expr":[` + c.rule + `]}}` + later + `]}`
		p, refusable, err := ReadRuleset([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := len(p.Blocks) > 0; got != c.blocks {
			t.Errorf("%s: flows stay with the stack: %t (%v), want %t", name, got, p.Blocks, c.blocks)
		}
		// elements that end by themselves do matter to what is dropped early
		if len(refusable.Blocks) == 0 {
			t.Errorf("%s: refused flows are dropped early for good", name)
		}
	}
}

// An operator learns why nothing of a family is offloaded; a rule for one protocol is no fault.
func TestHealthNamesTheRulesThatKeepAFamilyWithTheStack(t *testing.T) {
	wide := Block{Rule: "rule 4 of chain inet fw forward", Why: "it has a quota statement", IPv4: true, IPv6: true}
	narrow := Block{Rule: "rule 5 of chain inet fw forward", Why: "it has a limit statement", IPv4: true, Protocol: state.ProtocolUDP}
	list := Status{Blocks: []Block{wide, narrow}}.Health(working)
	if len(list) != 2 || list[1].Name != wide.Rule || list[1].Condition != state.Degraded || list[1].Because == "" || list[1].Remedy == "" {
		t.Errorf("health is %+v, want %q alone", list, wide.Rule)
	}
}

var working = state.Health{Feature: "offload", Condition: state.Working}

// Connections are tracked once a rule of the network namespace uses tracking, and without it
// nothing can be offloaded: health, the flows and weft check say so.
func TestRulesetsThatTrackNoConnections(t *testing.T) {
	in := func(family, table, expr string) string {
		return `{"nftables":[{"table":{"family":"` + family + `","name":"` + table + `"}},
			{"chain":{"family":"` + family + `","table":"` + table + `","name":"c","type":"filter","hook":"forward"}},
			{"rule":{"family":"` + family + `","table":"` + table + `","chain":"c","handle":4,"expr":[` + expr + `]}}]}`
	}
	state4 := `{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established"]}},{"accept":null}`
	for name, c := range map[string]struct {
		text       string
		ipv4, ipv6 bool
	}{
		"no rules":               {`{"nftables":[]}`, false, false},
		"accept alone":           {in("inet", "fw", `{"accept":null}`), false, false},
		"a set of addresses":     {in("ip", "fw", `{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@ct"}},{"drop":null}`), false, false},
		"a table bridge":         {in("bridge", "fw", state4), false, false},
		"ct state, inet":         {in("inet", "fw", state4), true, true},
		"ct state, ip":           {in("ip", "fw", state4), true, false},
		"ct state, ip6":          {in("ip6", "fw", state4), false, true},
		"a verdict map":          {in("inet", "fw", `{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["established",{"accept":null}]]}}}`), true, true},
		"masquerade":             {in("ip", "nat", `{"masquerade":null}`), true, false},
		"a match of iptables":    {in("ip", "filter", `{"xt":{"type":"match","name":"conntrack"}},{"accept":null}`), true, false},
		"weft's own early drops": {in("inet", state.RefusalTable, state4), true, true},
	} {
		p, _, err := ReadRuleset([]byte(c.text))
		if err != nil || p.Tracked4 != c.ipv4 || p.Tracked6 != c.ipv6 {
			t.Errorf("%s: IPv4 %t, IPv6 %t, %v; want %t and %t", name, p.Tracked4, p.Tracked6, err, c.ipv4, c.ipv6)
		}
		if why := p.untracked(state.FlowTuple{Src: four, Dst: four}); (why == WhyNoTracking) == c.ipv4 {
			t.Errorf("%s: an IPv4 flow that is not tracked stays with the stack because %q", name, why)
		}
		if why := p.untracked(state.FlowTuple{Src: six, Dst: six}); (why == WhyNoTracking) == c.ipv6 {
			t.Errorf("%s: an IPv6 flow that is not tracked stays with the stack because %q", name, why)
		}
		h := Status{Untracked: p.Untracked()}.Health(working)[0]
		if none := !c.ipv4 && !c.ipv6; (h.Condition == state.NotWorking) != none || none && h.Remedy != WhyNoTracking.Remedy() {
			t.Errorf("%s: health is %s", name, h)
		}
	}
	if h := (Status{Untracked: true, Connections: 1}).Health(working)[0]; h.Condition != state.Working {
		t.Errorf("with an offloaded connection health is %s", h)
	}
	if p := (Policy{Unknown: true}); p.Untracked() || p.untracked(state.FlowTuple{}) != WhyUntracked {
		t.Error("a ruleset that is not known is taken for one that tracks nothing")
	}
}
