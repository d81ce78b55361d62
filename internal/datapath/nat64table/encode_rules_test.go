package nat64table

import (
	"net/netip"
	"testing"

	"weft/internal/state"
)

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
