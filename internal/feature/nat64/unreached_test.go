package nat64_test

import (
	"net/netip"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/nat64"
	"weft/internal/features"
	"weft/internal/state"
)

// A house behind a private uplink learns that its printers are not under 64:ff9b::/96; the
// networks of the file count, and those that the host has by DHCP.
func TestNetworksThatTheWellKnownPrefixDoesNotReachAreNamed(t *testing.T) {
	facts := state.Facts{Links: []state.LinkFact{{Name: "wan", Index: 2, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}}}}
	for name, c := range map[string]struct {
		prefix, wan string
		facts       state.Facts
		want        []string
	}{
		"private, in the file":     {`"64:ff9b::/96"`, `"192.168.1.7/24"`, state.Facts{}, []string{"192.168.1.0/24 of interface.wan"}},
		"private, on the host":     {`"64:ff9b::/96"`, ``, facts, []string{"192.168.1.0/24 of interface.wan"}},
		"in both, said once":       {`"64:ff9b::/96"`, `"192.168.1.7/24"`, facts, []string{"192.168.1.0/24 of interface.wan"}},
		"for documentation":        {`"64:ff9b::/96"`, `"198.51.100.1/24"`, state.Facts{}, []string{"198.51.100.0/24 of interface.wan"}},
		"shared by carriers":       {`"64:ff9b::/96"`, `"100.64.3.1/22"`, state.Facts{}, []string{"100.64.0.0/22 of interface.wan"}},
		"public":                   {`"64:ff9b::/96"`, `"93.184.216.1/24"`, state.Facts{}, nil},
		"a prefix of one's own":    {`"2001:db8:64::/96"`, `"192.168.1.7/24"`, facts, nil},
		"of RFC 8215":              {`"64:ff9b:1::/96"`, `"192.168.1.7/24"`, facts, nil},
		"the second prefix has it": {"\"64:ff9b::/96\"\nprefixes = [\"2001:db8:64::/96\"]", `"192.168.1.7/24"`, facts, nil},
	} {
		f, problems := config.Load("weft.toml", []byte("[interface.lan]\naddresses = [\"2001:db8:1::1/64\"]\n[interface.wan]\naddresses = ["+c.wan+
			"]\n[nat64.main]\nmode = \"stateful\"\ninterfaces = [\"lan\", \"wan\"]\npools = [{ ipv4 = \"203.0.113.0/28\" }]\nprefix = "+c.prefix+"\n"), features.Sections())
		if state.HasErrors(problems) {
			t.Fatal(name, problems)
		}
		got := nat64.Plan(f, c.facts).Problems
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
			continue
		}
		for i, w := range c.want {
			if p := got[i]; p.Severity != state.Warning || !strings.Contains(p.What, w) || p.Remedy == "" || p.Pos.Line != 9 {
				t.Errorf("%s: %v, want %q", name, p, w)
			}
		}
	}
}
