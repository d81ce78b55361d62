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
			"it has a limit statement", "the elements of its set banned come and go by themselves",
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
