package plan

import (
	"net/netip"
	"strings"
	"testing"

	"weft/internal/state"
)

// host has lan 192.0.2.1/24 and 2001:db8:1::1/64, wan with a private network
// 10.7.0.0/24 and a gateway there, and a route by hand.
func host() state.Facts {
	facts := links("lan", "wan", "siit0 tun", "br0 bridge")
	p := netip.MustParsePrefix
	facts.Links[0].Addresses = []netip.Prefix{p("192.0.2.1/24"), p("2001:db8:1::1/64"), p("fe80::1/64")}
	facts.Links[1].Addresses = []netip.Prefix{p("10.7.0.2/24"), p("198.51.100.77/32")}
	facts.Links[2].Addresses = []netip.Prefix{p("192.0.0.1/32")}
	facts.Links[0].Foreign, facts.Links[1].Foreign = true, true
	facts.Links[3].Addresses = []netip.Prefix{p("172.16.7.1/24")}
	facts.Made = []string{"siit0", "br0", "attic"}
	facts.Routes = []state.RouteFact{
		{Prefix: p("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.7.0.1"), Device: "wan", Metric: 100},
		{Prefix: p("203.0.113.0/25"), Gateway: netip.MustParseAddr("192.0.2.9"), Device: "lan"},
		{Prefix: p("2001:db8:9::/48"), Gateway: netip.MustParseAddr("fe80::9"), Device: "lan", Metric: 1024},
	}
	return facts
}

func claimed(kind state.ClaimKind, section, p string) state.Claim {
	return state.Claim{For: kind, Prefix: netip.MustParsePrefix(p), Section: section, Path: section + ".x", Device: "wan"}
}

// What is an error, what a warning, and what is all right.
func TestWhatOverlapsIsSaidWithBothPlaces(t *testing.T) {
	const translated, given, gateway, blocked, excepted = state.ClaimTranslated, state.ClaimGiven, state.ClaimGateway, state.ClaimBlocked, state.ClaimExcepted
	route := func(p string, metric int) state.Object {
		return state.Route{Prefix: netip.MustParsePrefix(p), Device: "siit0", Metric: metric}
	}
	for name, c := range map[string]struct {
		claims []state.Claim
		object state.Object
		want   []string // severity and a part of the text
	}{
		"a pool apart":                            {claims: []state.Claim{claimed(translated, "nat64.a", "198.18.0.0/24")}},
		"a pool in a network, answered for":       {claims: []state.Claim{claimed(translated, "nat64.a", "192.0.2.64/28")}},
		"a pool that is the router's address":     {claims: []state.Claim{claimed(translated, "nat64.a", "198.51.100.77/32")}, want: []string{"error: nat64.a.x: 198.51.100.77/32 contains the router's own address 198.51.100.77/32 of wan"}},
		"a pool that holds it":                    {claims: []state.Claim{claimed(translated, "nat64.a", "192.0.2.0/28")}, want: []string{"error: nat64.a.x: 192.0.2.0/28 contains the router's own address 192.0.2.1/24 of lan"}},
		"a pool that holds the gateway":           {claims: []state.Claim{claimed(translated, "nat64.a", "10.7.0.1/32")}, want: []string{"error: nat64.a.x: 10.7.0.1/32 contains the gateway of the host's route default via 10.7.0.1"}},
		"a pool of a translator that shares":      {claims: []state.Claim{claimed(translated, "nat64.shared", "192.0.2.64/28")}, want: []string{"warning: nat64.shared.x: 192.0.2.64/28 is in the network 192.0.2.1/24 of lan"}},
		"a prefix that is a LAN":                  {claims: []state.Claim{claimed(translated, "nat64.a", "2001:db8:1::/64")}, want: []string{"error: nat64.a.x: 2001:db8:1::/64 contains the router's own address 2001:db8:1::1/64"}},
		"subscribers apart":                       {claims: []state.Claim{claimed(given, "access.a", "198.18.0.0/24")}},
		"subscribers in the LAN's place":          {claims: []state.Claim{claimed(given, "access.a", "192.0.2.0/24")}, want: []string{"error: access.a.x: 192.0.2.0/24 contains the network 192.0.2.1/24 of lan: its hosts would be cut off"}},
		"subscribers in a part of the LAN":        {claims: []state.Claim{claimed(given, "access.a", "192.0.2.128/25")}, want: []string{"warning: access.a.x: 192.0.2.128/25 is a part of the network 192.0.2.1/24 of lan"}},
		"space to delegate that holds a LAN":      {claims: []state.Claim{claimed(given, "access.a", "2001:db8::/40")}, want: []string{"error: access.a.x: 2001:db8::/40 contains the network 2001:db8:1::1/64 of lan"}},
		"subscribers with the gateway":            {claims: []state.Claim{claimed(given, "access.a", "10.7.0.1/32")}, want: []string{"warning: access.a.x: 10.7.0.1/32 is a part of the network", "error: access.a.x: 10.7.0.1/32 contains the gateway"}},
		"a device by the name of another":         {object: state.Device{Name: "wan", Owner: "nat64.a"}, want: []string{"error: nat64.a: the host has a device wan already"}},
		"a pseudowire by the name of another":     {object: state.PseudowireDevice{Name: "lan", Hidden: "lan-h", Owner: "pseudowire.lan"}, want: []string{"error: pseudowire.lan: the host has a device lan already"}},
		"one whose hidden end is there":           {object: state.PseudowireDevice{Name: "x", Hidden: "wan", Owner: "pseudowire.x"}, want: []string{"error: pseudowire.x: the host has a device wan already"}},
		"a device of weft's that is there":        {object: state.Device{Name: "siit0", Owner: "nat64.a"}},
		"subscribers beside a loopback address":   {claims: []state.Claim{claimed(given, "access.a", "198.51.100.0/24")}, want: []string{"warning: access.a.x: 198.51.100.0/24 contains the router's own address 198.51.100.77/32 of wan"}},
		"which is their gateway":                  {claims: []state.Claim{claimed(gateway, "access.a", "198.51.100.77/32"), claimed(given, "access.a", "198.51.100.0/24")}},
		"two servers with one pool":               {claims: []state.Claim{claimed(given, "access.a", "198.18.0.0/24"), claimed(given, "access.b", "198.18.0.0/25")}, want: []string{"error: access.b.x: 198.18.0.0/25 overlaps 198.18.0.0/24, which is access.a.x"}},
		"a user within the pool of the section":   {claims: []state.Claim{claimed(given, "access.a", "198.18.0.0/24"), claimed(given, "access.a", "198.18.0.7/32")}},
		"subscribers and a translator":            {claims: []state.Claim{claimed(translated, "nat64.a", "198.18.0.0/28"), claimed(given, "access.a", "198.18.0.0/24")}, want: []string{"error: access.a.x: 198.18.0.0/24 overlaps 198.18.0.0/28, which is nat64.a.x"}},
		"a translator and subscribers":            {claims: []state.Claim{claimed(given, "access.a", "198.18.0.0/24"), claimed(translated, "nat64.a", "198.18.0.0/28")}, want: []string{"error: nat64.a.x: 198.18.0.0/28 overlaps 198.18.0.0/24, which is access.a.x"}},
		"a gateway in a pool of a translator":     {claims: []state.Claim{claimed(translated, "nat64.a", "198.18.0.0/28"), claimed(gateway, "access.a", "198.18.0.1/32")}, want: []string{"error: access.a.x: 198.18.0.1/32 overlaps"}},
		"spaces of two kinds to delegate":         {claims: []state.Claim{claimed(given, "ra.lan", "2001:db8:40::/44"), claimed(given, "access.a", "2001:db8:44::/48")}, want: []string{"error: access.a.x: 2001:db8:44::/48 overlaps"}},
		"a list with the uplink's own network":    {claims: []state.Claim{claimed(blocked, "guard.a", "10.0.0.0/8")}, want: []string{"warning: guard.a.x: drops packets from 10.7.0.1, the gateway"}},
		"a list with hosts of it":                 {claims: []state.Claim{claimed(blocked, "guard.a", "10.7.0.128/25")}, want: []string{"warning: guard.a.x: 10.7.0.128/25 drops packets from hosts of the network 10.7.0.2/24 of wan"}},
		"a list with another device's network":    {claims: []state.Claim{claimed(blocked, "guard.a", "192.0.2.0/24")}},
		"a list with an exception":                {claims: []state.Claim{claimed(blocked, "guard.a", "10.0.0.0/8"), claimed(excepted, "guard.a", "10.7.0.0/24")}},
		"a list with an exception that is undone": {claims: []state.Claim{claimed(excepted, "guard.a", "10.7.0.0/24"), claimed(blocked, "guard.a", "10.7.0.1/32")}, want: []string{"warning: guard.a.x: drops packets from 10.7.0.1, the gateway"}},
		"a route in the place of the host's":      {object: route("203.0.113.0/25", 0), want: []string{"error: the host has a route of its own for 203.0.113.0/25: 203.0.113.0/25 via 192.0.2.9 dev lan metric 0"}},
		"one of IPv6":                             {object: route("2001:db8:9::/48", 0), want: []string{"error: the host has a route of its own for 2001:db8:9::/48"}},
		"behind the host's":                       {object: route("203.0.113.0/25", 7), want: []string{"warning: the host's own route is preferred to that to siit0"}},
		"around the host's":                       {object: route("203.0.113.0/24", 0), want: []string{"warning: a part of 203.0.113.0/24 goes by the host's own route"}},
		"within the host's":                       {object: route("203.0.113.0/26", 0)},
		"an address that is yet to come":          {claims: []state.Claim{claimed(translated, "nat64.a", "198.18.0.0/28")}, object: state.Address{Device: "lan", Prefix: netip.MustParsePrefix("198.18.0.3/32")}, want: []string{"error: nat64.a.x: 198.18.0.0/28 contains the router's own address 198.18.0.3/32 of lan"}},
		"an address of a device of weft's":        {claims: []state.Claim{claimed(given, "access.a", "192.0.0.0/24")}, object: state.Device{Name: "siit0", Owner: "nat64.a"}},
		"the network of a bridge of weft's":       {claims: []state.Claim{claimed(given, "access.a", "172.16.7.0/24")}, object: state.Bridge{Name: "br0", Owner: "bridge.a"}, want: []string{"error: access.a.x: 172.16.7.0/24 contains the network 172.16.7.1/24 of br0"}},
		"one that is yet to come, on a wire":      {claims: []state.Claim{claimed(translated, "nat64.a", "172.16.8.0/28")}, object: state.Address{Device: "attic", Prefix: netip.MustParsePrefix("172.16.8.1/24")}, want: []string{"error: nat64.a.x: 172.16.8.0/28 contains the router's own address 172.16.8.1/24 of attic"}},
		"a bridge by the name of another":         {object: state.Bridge{Name: "wan", Owner: "bridge.a"}, want: []string{"error: bridge.a: the host has a device wan already"}},
		"a guest's device by the name of another": {object: state.GuestDevice{Name: "vm1", Kind: "veth", Peer: "lan", Owner: "bridge.a"}, want: []string{"error: bridge.a: the host has a device lan already"}},
	} {
		facts := host()
		facts.Shared = []string{"shared"}
		part := state.Part{Claims: c.claims}
		if c.object != nil {
			part.Objects = state.Desired{c.object}
		}
		_, problems := Desire([]state.Part{part}, facts)
		var got []string
		for _, p := range problems {
			got = append(got, strings.TrimPrefix(p.String(), ": "))
			if p.Condition != state.Degraded || p.Remedy == "" {
				t.Errorf("%s: health has nothing of %v, or it has no remedy", name, p)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: the problems are %q, want %q", name, got, c.want)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("%s: the problems are %q, want %q", name, got, want)
			}
		}
	}
}
