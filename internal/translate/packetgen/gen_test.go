package packetgen_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

func TestEveryKindOfPacketIsMadeAndNoneIsTooLong(t *testing.T) {
	cfg := &translate.Config{
		Table: translate.NewTable(netip.MustParsePrefix("64:ff9b::/96"), []translate.Mapping{
			{IPv6: netip.MustParsePrefix("2001:db8::/120"), IPv4: netip.MustParsePrefix("192.0.2.0/24")}}),
		Translatable: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
	}
	g := packetgen.New(1, cfg)
	both := "tcp udp echo icmp-other icmp-error other syn mss bad-option no-checksum udp-length wrong-checksum " +
		"quote-cut extensions ttl auth fragment-first fragment-later cut padded length-over length-under version " +
		"dst-stranger dst-link src-illegal data-offset"
	only := map[string]string{
		"Next6": "options6 routing routing-used-up many-extensions extension-length fragment-atomic " +
			"extension-after-fragment src-unmapped dst-illegal",
		"Next4": "df record-route timestamp source-route source-route-used-up bad-option4 header-checksum src-node",
	}
	for name, next := range map[string]func() ([]byte, string){"Next6": g.Next6, "Next4": g.Next4} {
		seen := map[string]bool{}
		for range 20000 {
			pkt, kind := next()
			if len(pkt) > 1500 {
				t.Fatalf("%s: %d bytes of %s", name, len(pkt), kind)
			}
			for word := range strings.SplitSeq(kind, "/") {
				seen[word] = true
			}
		}
		for _, word := range slices.Concat(strings.Fields(both), strings.Fields(only[name])) {
			if !seen[word] {
				t.Errorf("%s made no %s", name, word)
			}
		}
	}
}
