package lns_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/lns"
	"weft/internal/ppp"
	"weft/internal/state"
)

func sections() []config.Section {
	return append(config.CoreSections(), lns.Section(), lns.ClientSection())
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), lns.Plan); n < 3 {
		t.Errorf("%d files, want 3 at least", n)
	}
}

// What the server gave is planned: addresses, a /64 for each interface, default
// routes. An interface for which nothing is left is a problem.
func TestAClientHasWhatItWasGiven(t *testing.T) {
	f, problems := config.Load("", []byte(`
[interface.wan]
[interface.lan]
[interface.guests]
[l2tp_client.isp]
server = "192.0.2.1"
prefix_delegation = true
delegate_to = ["lan", "guests"]
default_route = ["4", "6"]
`), sections())
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	facts := state.Facts{Clients: map[string]state.L2TPClient{"isp": {
		Up: true, IPv4: netip.MustParseAddr("203.0.113.5"), MTU: 1400, Router: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::5/64")}, Delegated: netip.MustParsePrefix("2001:db8:2::/64"),
	}}}
	part := lns.Plan(f, facts)
	desired, problems := part.Objects, part.Problems
	address := func(device, p string) state.Object {
		return state.Address{Device: device, Prefix: netip.MustParsePrefix(p)}
	}
	route := func(p string, metric int) state.Object {
		return state.Route{Prefix: netip.MustParsePrefix(p), Device: "l2tp-isp", Metric: metric}
	}
	for _, want := range []state.Object{
		address("l2tp-isp", "203.0.113.5/32"), address("l2tp-isp", "2001:db8:1::5/128"), address("lan", "2001:db8:2::1/64"),
		route("0.0.0.0/0", 1), route("::/0", 1025), // the kernel's own metrics are left to the host
	} {
		if !slices.Contains(desired, want) {
			t.Errorf("%s is not planned:\n%v", want, desired)
		}
	}
	for _, o := range desired {
		if d, ok := o.(state.Device); ok && d.MTU != 1400 {
			t.Errorf("the device is %s, and packets have up to 1400 bytes", o)
		}
	}
	if len(problems) != 1 || problems[0].Path != "l2tp_client.isp.delegate_to[1]" {
		t.Errorf("problems are %v, want one for the interface without prefix", problems)
	}
}

// Default routes that the host has stay, and weft's stand beside them: which of
// them the kernel prefers is said with the place and the metric to give.
func TestAClientsDefaultRoutesStandBesideTheHosts(t *testing.T) {
	f, problems := config.Load("weft.toml", []byte("[interface.wan]\n[l2tp_client.isp]\nserver = \"192.0.2.1\"\ndefault_route = [\"4\", \"6\"]\n"), sections())
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	session := map[string]state.L2TPClient{"isp": {Up: true, IPv4: netip.MustParseAddr("203.0.113.5"), Router: true}}
	route := func(p, gateway, device string, metric int) state.RouteFact {
		return state.RouteFact{Prefix: netip.MustParsePrefix(p), Gateway: netip.MustParseAddr(gateway), Device: device, Metric: metric}
	}
	for name, c := range map[string]struct {
		host             []state.RouteFact
		metric4, metric6 int
		ahead            []string
	}{
		"none":                                {nil, 1, 1025, nil},
		"by ifupdown":                         {[]state.RouteFact{route("0.0.0.0/0", "192.0.2.1", "wan", 0)}, 1, 1025, []string{"default via 192.0.2.1 dev wan metric 0"}},
		"by router advertisements":            {[]state.RouteFact{route("::/0", "fe80::1", "wan", 1024)}, 1, 1025, []string{"default via fe80::1 dev wan metric 1024"}},
		"by NetworkManager":                   {[]state.RouteFact{route("0.0.0.0/0", "192.0.2.1", "wan", 100), route("::/0", "fe80::1", "wan", 1100)}, 1, 1025, nil},
		"one in each place":                   {[]state.RouteFact{route("0.0.0.0/0", "192.0.2.1", "wan", 1), route("0.0.0.0/0", "192.0.2.1", "wwan", 2)}, 3, 1025, []string{"default via 192.0.2.1 dev wan metric 1", "default via 192.0.2.1 dev wwan metric 2"}},
		"another prefix":                      {[]state.RouteFact{route("0.0.0.0/1", "192.0.2.1", "wan", 0)}, 1, 1025, nil},
		"another route on the session itself": {[]state.RouteFact{route("0.0.0.0/0", "192.0.2.1", "l2tp-isp", 1)}, 1, 1025, nil},
	} {
		part := lns.Plan(f, state.Facts{Clients: session, Routes: c.host})
		for _, want := range []state.Object{
			state.Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Device: "l2tp-isp", Metric: c.metric4},
			state.Route{Prefix: netip.MustParsePrefix("::/0"), Device: "l2tp-isp", Metric: c.metric6},
		} {
			if !slices.Contains(part.Objects, want) {
				t.Errorf("%s: %s is not planned:\n%v", name, want, part.Objects)
			}
		}
		var ahead []string
		for _, p := range part.Problems {
			_, which, _ := strings.Cut(p.What, "session: ")
			ahead = append(ahead, which)
			if p.Severity != state.Warning || p.Condition != state.Degraded || p.Pos.Line != 4 {
				t.Errorf("%s: the problem is %v (degrades: %v), want a warning at line 4 that degrades", name, p, p.Condition)
			}
		}
		if !slices.Equal(ahead, c.ahead) {
			t.Errorf("%s: said to be preferred: %q, want %q", name, ahead, c.ahead)
		}
	}
}

// PAP sends the password itself: to whichever server answers, and past every LAC. It is
// used only by a section that names it.
func TestPAPIsUsedOnlyIfItIsNamed(t *testing.T) {
	const text = `
[interface.wan]
addresses = ["192.0.2.1/24"]
[l2tp_client.isp]
server = "192.0.2.9"
login = "alice"
password = "wonder"
%s
[lns.isp]
listen = ["192.0.2.1"]
lacs = [{ address = "198.51.100.7" }]
users = [{ login = "bob", password = "builder" }]
pools = [{ addresses = ["203.0.113.0/24"] }]
%[1]s
`
	for key, want := range map[string][]ppp.Method{
		"":                                 {ppp.MethodCHAP, ppp.MethodMSCHAPv2},
		`authentication = ["pap", "chap"]`: {ppp.MethodPAP, ppp.MethodCHAP},
		`authentication = ["mschapv2"]`:    {ppp.MethodMSCHAPv2},
	} {
		f, problems := config.Load("", fmt.Appendf(nil, text, key), sections())
		if state.HasErrors(problems) {
			t.Fatal(problems)
		}
		servers, clients := lns.Settings(f, state.Facts{})
		if len(servers) != 1 || !slices.Equal(servers[0].Methods, want) {
			t.Errorf("%q: the server asks for %v, want %v", key, servers[0].Methods, want)
		}
		if len(clients) != 1 || !slices.Equal(clients[0].Methods, want) {
			t.Errorf("%q: the client agrees to %v, want %v", key, clients[0].Methods, want)
		}
	}
}
