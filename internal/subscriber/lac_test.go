package subscriber

import (
	"net/netip"
	"testing"
)

// Each LAC has a secret of its own: who it is, its address says, and its name.
func TestEachLACHasItsSecret(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	second := netip.MustParseAddrPort("[2001:db8::1]:1701")
	s.Listen = append(s.Listen, second)
	s.LACs = []LAC{
		{Name: "all", Address: netip.MustParsePrefix("198.51.100.0/24"), Secret: "a"},
		{Name: "one", Address: netip.MustParsePrefix("198.51.100.7/32"), Secret: "b"},
		{Name: "named", Address: netip.MustParsePrefix("198.51.100.0/24"), HostName: "dsl", Secret: "c"},
		{Name: "six", Address: netip.MustParsePrefix("2001:db8:7::/48"), Secret: "d"},
	}
	d.server.engine.Set([]ServerSettings{s}, nil, d.now)
	for _, c := range []struct{ here, from, host, want string }{
		{"192.0.2.1:1701", "198.51.100.5", "x", "all"},
		{"192.0.2.1:1701", "198.51.100.5", "dsl", "named"},
		{"192.0.2.1:1701", "198.51.100.7", "x", "one"},
		{"192.0.2.1:1701", "198.51.100.7", "dsl", "one"},
		{"[2001:db8::1]:1701", "2001:db8:7::9", "x", "six"},
		{"192.0.2.1:1701", "203.0.113.1", "dsl", ""},
		{"192.0.2.2:1701", "198.51.100.5", "x", ""}, // the router does not listen there
	} {
		got := ""
		if _, l := d.server.engine.lacOf(netip.MustParseAddrPort(c.here), netip.MustParseAddr(c.from), c.host); l != nil {
			got = l.Name
		}
		if got != c.want {
			t.Errorf("%s from %s is %q, want %q", c.host, c.from, got, c.want)
		}
	}
}
