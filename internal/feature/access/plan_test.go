package access_test

import (
	"net/netip"
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/access"
	"weft/internal/state"
)

func sections() []config.Section {
	return append(config.CoreSections(), access.Section(), access.ClientSection())
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), access.Plan); n < 3 {
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
prefix = true
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
	part := access.Plan(f, facts)
	desired, problems := part.Objects, part.Problems
	address := func(device, p string) state.Object {
		return state.Address{Device: device, Prefix: netip.MustParsePrefix(p)}
	}
	route := func(p string) state.Object {
		return state.Route{Prefix: netip.MustParsePrefix(p), Device: "l2tp-isp"}
	}
	for _, want := range []state.Object{
		address("l2tp-isp", "203.0.113.5/32"), address("l2tp-isp", "2001:db8:1::5/128"), address("lan", "2001:db8:2::1/64"),
		route("0.0.0.0/0"), route("::/0"),
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
