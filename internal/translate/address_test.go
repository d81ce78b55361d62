package translate_test

import (
	"net/netip"
	"testing"

	"weft/internal/translate"
)

func TestAddressesAreEmbeddedAsTheTableOfRFC6052Shows(t *testing.T) {
	const v4 = "192.0.2.33"
	for prefix, want := range map[string]string{ // RFC 6052 section 2.4
		"2001:db8::/32":          "2001:db8:c000:221::",
		"2001:db8:100::/40":      "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":      "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56":  "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64":  "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96":  "2001:db8:122:344::192.0.2.33",
		"64:ff9b::/96":           "64:ff9b::c000:221",
		"2001:db8:ffff:ffff::/0": "invalid IP",
		"2001:db8::/33":          "invalid IP",
		"192.0.2.0/24":           "invalid IP",
	} {
		p := netip.MustParsePrefix(prefix)
		got := translate.Embed(p, addr(v4))
		if got.String() != addrString(want) {
			t.Errorf("%s in %s: %v, want %s", v4, prefix, got, want)
		}
		back, ok := translate.Extract(p, got)
		if got.IsValid() && (!ok || back != addr(v4)) {
			t.Errorf("%v of %s: %v %v", got, prefix, back, ok)
		}
	}
}

func addrString(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	return s
}

func TestExtractRefusesTheUOctetAndStrangersButNotTheSuffix(t *testing.T) {
	for _, c := range []struct {
		prefix, v6, want string
	}{
		{"2001:db8::/32", "2001:db8:c000:221:100::", ""},                            // u octet
		{"2001:db8:122:344::/64", "2001:db8:122:344:1c0:2:2100::", ""},              // u octet
		{"2001:db8::/32", "2001:db8:c000:221:1:2:3:4", "192.0.2.33"},                // suffix
		{"2001:db8::/32", "2001:db9:c000:221::", ""},                                // another prefix
		{"2001:db8:122:344:ff::/96", "2001:db8:122:344:ff::c000:221", "192.0.2.33"}, // prefix covers it
		{"64:ff9b::/96", "::ffff:192.0.2.33", ""},
	} {
		got, ok := translate.Extract(netip.MustParsePrefix(c.prefix), addr(c.v6))
		if ok != (c.want != "") || ok && got != addr(c.want) {
			t.Errorf("%s of %s: %v %v, want %q", c.v6, c.prefix, got, ok, c.want)
		}
	}
}

// rfc7757 is the table of RFC 7757 section 3.2 with a prefix beside it.
func rfc7757() *translate.Table {
	return translate.NewTable(netip.MustParsePrefix("2001:db8:100::/40"), []translate.Mapping{
		mapping("2001:db8:aaaa::/128", "192.0.2.1/32"),
		mapping("2001:db8:bbbb::b/128", "192.0.2.2/32"),
		mapping("2001:db8:cccc::/124", "192.0.2.16/28"),
		mapping("2001:db8:dddd::/64", "192.0.2.128/26"),
		mapping("2001:db8:eeee:8::/62", "192.0.2.192/29"),
		mapping("64:ff9b::/127", "192.0.2.224/31"),
	})
}

func TestExplicitMappingsTranslateBothWays(t *testing.T) {
	table := rfc7757()
	for v4, v6 := range map[string]string{
		"192.0.2.1":    "2001:db8:aaaa::",
		"192.0.2.2":    "2001:db8:bbbb::b",
		"192.0.2.16":   "2001:db8:cccc::",
		"192.0.2.24":   "2001:db8:cccc::8",
		"192.0.2.31":   "2001:db8:cccc::f",
		"192.0.2.128":  "2001:db8:dddd::",
		"192.0.2.152":  "2001:db8:dddd:0:6000::",
		"192.0.2.191":  "2001:db8:dddd:0:fc00::",
		"192.0.2.192":  "2001:db8:eeee:8::",
		"192.0.2.193":  "2001:db8:eeee:8:8000::",
		"192.0.2.195":  "2001:db8:eeee:9:8000::",
		"192.0.2.199":  "2001:db8:eeee:b:8000::",
		"192.0.2.224":  "64:ff9b::",
		"192.0.2.225":  "64:ff9b::1",
		"192.0.2.3":    "2001:db8:1c0:2:3::", // none fits: the prefix
		"198.51.100.1": "2001:db8:1c6:3364:1::",
	} {
		if got, ok := table.To6(addr(v4)); !ok || got != addr(v6) {
			t.Errorf("To6(%s) = %v %v, want %s", v4, got, ok, v6)
		}
		if got, ok := table.To4(addr(v6)); !ok || got != addr(v4) {
			t.Errorf("To4(%s) = %v %v, want %s", v6, got, ok, v4)
		}
	}
}

func TestSurplusIPv6BitsAreDiscarded(t *testing.T) {
	got, ok := rfc7757().To4(addr("2001:db8:dddd:0:63ff:ffff:1234:5678"))
	if !ok || got != addr("192.0.2.152") {
		t.Errorf("%v %v", got, ok)
	}
}

func TestTheLongestMatchWinsInEitherFamily(t *testing.T) {
	table := translate.NewTable(netip.MustParsePrefix("2001:db8::/32"), []translate.Mapping{
		mapping("2001:db8:f::/120", "198.51.100.0/24"),
		mapping("2001:db8:f::80/128", "203.0.113.1/32"),
		mapping("2001:db8:e::/128", "198.51.100.7/32"),
		mapping("2001:db8:f::/64", "10.0.0.0/8"),
		mapping("2001:db8:d::/127", "10.0.0.0/8"),      // IPv4 suffix longer: left out
		mapping("2001:db8:9::/120", "198.51.100.0/24"), // a second one of the same: the first counts
	})
	for v6, want := range map[string]string{
		"2001:db8:f::80": "203.0.113.1", "2001:db8:f::81": "198.51.100.129", "2001:db8:e::": "198.51.100.7",
		"2001:db8:f::1:0": "10.0.0.0", "2001:db8:9::1": "198.51.100.1",
	} {
		if got, ok := table.To4(addr(v6)); !ok || got != addr(want) {
			t.Errorf("To4(%s) = %v %v, want %s", v6, got, ok, want)
		}
	}
	for v4, want := range map[string]string{
		"198.51.100.7": "2001:db8:e::", "198.51.100.8": "2001:db8:f::8", "10.1.2.3": "2001:db8:f:0:102:300::",
	} {
		if got, ok := table.To6(addr(v4)); !ok || got != addr(want) {
			t.Errorf("To6(%s) = %v %v, want %s", v4, got, ok, want)
		}
	}
}

func TestWithoutPrefixOnlyMappingsTranslate(t *testing.T) {
	table := translate.NewTable(netip.Prefix{}, []translate.Mapping{mapping("2001:db8::/120", "192.0.2.0/24")})
	if got, ok := table.To6(addr("198.51.100.1")); ok {
		t.Errorf("To6 gave %v", got)
	}
	if got, ok := table.To4(addr("64:ff9b::1")); ok {
		t.Errorf("To4 gave %v", got)
	}
	if _, ok := table.To4(addr("192.0.2.1")); ok {
		t.Error("To4 took an IPv4 address")
	}
}
