package datapath

import (
	"net/netip"
	"testing"

	"weft/fib"
	"weft/internal/state"
)

func TestProgramsReadTheLayoutThatIsWritten(t *testing.T) {
	for _, f := range []family{fib4, fib6} {
		outer, layout, err := outerSpec(f)
		if err != nil {
			t.Fatal(err)
		}
		least := map[family]int{fib4: fib.MinWords4, fib6: fib.MinWords6}[f]
		if layout != fib.LayoutVersion || int(outer.InnerMap.ValueSize) != 4*least {
			t.Errorf("%s: layout %d of at least %d bytes in C, %d of %d in Go", f, layout, outer.InnerMap.ValueSize, fib.LayoutVersion, 4*least)
		}
	}
}

// The counters' rows are read by the program's place in the list.
func TestProgramsStandInTheOrderOfTheC(t *testing.T) {
	list := programs()
	if len(list) != programCount {
		t.Errorf("there are %d programs in Go, %d in C", len(list), programCount)
	}
	for _, p := range list {
		spec, err := p.spec()
		if err != nil {
			t.Fatal(err)
		}
		if spec.Programs[p.name] == nil {
			t.Errorf("the object that is in the place of %s has no function of that name", p.name)
		}
	}
}

// If an object came out of the tables other than it went in, every plan would
// find something to change.
func TestRulesAndTranslatorsComeOutAsTheyWentIn(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, pair := range []struct {
		six, four string
		u         bool
	}{
		{"2001:db8::/32", "0.0.0.0/0", true}, {"2001:db8:100::/40", "0.0.0.0/0", true}, {"2001:db8:122::/48", "0.0.0.0/0", true},
		{"2001:db8:122:300::/56", "0.0.0.0/0", true}, {"2001:db8:122:344::/64", "0.0.0.0/0", true}, {"64:ff9b::/96", "0.0.0.0/0", false},
		{"2001:db8:c000:200::/56", "192.0.2.0/24", true}, {"2001:db8:c000:221::/64", "192.0.2.33/32", true},
		{"2001:db8:1c0:2:20::/76", "192.0.2.32/28", true}, {"2001:db8:122:344:c0:2::/96", "192.0.2.0/24", true},
		{"2001:db8:3::/120", "203.0.113.0/24", false}, {"2001:db8:3::7/128", "203.0.113.7/32", false}, {"2001:db8:5::/64", "192.0.2.128/26", false},
		{"2001:db8::/33", "10.0.0.0/8", false}, {"2001:db8:3::4/127", "203.0.113.4/31", false},
	} {
		for _, kind := range []state.RuleKind{state.RulePrefix, state.RuleNode, state.RuleMapping, state.RuleMapping4, state.RuleRefused, state.RulePool} {
			six := state.Rule{From: prefix(pair.six), To: prefix(pair.four), Kind: kind, UOctet: pair.u, Translator: 63}
			if got := decodeRule6(encodeRule6(six)); got != six {
				t.Errorf("%v came out as %v", six, got)
			}
			four := state.Rule{From: prefix(pair.four), To: prefix(pair.six), Kind: kind, UOctet: pair.u, Translator: 1}
			if got := decodeRule4(encodeRule4(four)); got != four {
				t.Errorf("%v came out as %v", four, got)
			}
		}
	}
	for _, p := range []string{"", "2001:db8::/32", "2001:db8:122:344::/64", "64:ff9b::/96"} {
		in := state.Translator{ID: 7, Name: "main", Device: "#12", MAC: [6]byte{2, 1, 2, 3, 4, 5}, LowestMTU: 1400, MaxMSS: 1440, UDPZero: true, CopyTOS: p == ""}
		if p != "" {
			in.Prefix = prefix(p)
		}
		if got := decodeTranslator(7, encodeTranslator(in, 12)); got != in {
			t.Errorf("%v came out as %v", in, got)
		}
	}
}

func TestWhatRoutingKnowsComesOutAsItWentIn(t *testing.T) {
	for _, p := range []state.Port{
		{Device: "#99", MAC: [6]byte{2, 1, 2, 3, 4, 5}, Roles: state.RoleRouted, Table: 255},
		{Device: "#99", Translators: 5, Roles: state.RoleShortcut | state.RoleXDPOut},
		{Device: "#99", Roles: state.RoleBridgePort},
	} {
		if got := decodePort(99, encodePort(p)); got != p {
			t.Errorf("%v came out as %v", p, got)
		}
	}
	for _, tags := range []state.VLANTags{noTags, vlan7, service, qinq} {
		l := state.Lower{Device: "#99", Tags: tags, Upper: "#100"}
		if got := decodeLower(encodeLower(l, 99), 100); got != l {
			t.Errorf("%v came out as %v", l, got)
		}
		n := state.NeighbourEntry{IfIndex: 7, MTU: 1492, Dst: mac6, Src: mac4, Tags: tags, XDP: tags == noTags}
		if got := decodeNeighbour(encodeNeighbour(n)); got != n {
			t.Errorf("%v came out as %v", n, got)
		}
	}
}

func TestProxiesComeOutAsTheyWentIn(t *testing.T) {
	for _, p := range []string{"192.0.2.7/32", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "2001:db8::7/128", "64:ff9b::/96"} {
		in := state.Proxy{Device: "#99", Prefix: netip.MustParsePrefix(p)}
		if got := decodeProxy(encodeProxy(in, 99)); got != in {
			t.Errorf("%v came out as %v", in, got)
		}
	}
}
