package route

import (
	"net/netip"
	"testing"

	"weft/internal/state"
)

// Routes to an access's device, however many, share one next hop, which says
// that the datapath knows whose each address is.
func TestSubscribersShareTheNextHopOfTheirAccess(t *testing.T) {
	r := newRig(t, Numbers{1, 1000})
	r.Link(state.KernelLink{Index: 7, Name: "lns-main", Ethernet: true, Sessions: true})
	for _, p := range []string{"10.64.0.0/16", "10.64.0.5/32", "192.0.2.77/32", "2001:db8:a::/56", "2001:db8:f::7/128"} {
		r.add(p, "dev 7")
	}
	want := state.Nexthop{Kind: state.NexthopSession, Index: 7}
	numbers := map[uint32]bool{}
	for _, a := range []string{"10.64.3.4", "10.64.0.5", "192.0.2.77"} {
		n := r.look(a)
		numbers[n] = true
		if got := r.memory.nexthops[n]; got != want {
			t.Errorf("%s leads to %v, want %v", a, got, want)
		}
	}
	if len(numbers) != 1 {
		t.Errorf("IPv4 subscribers have %d next hops", len(numbers))
	}
	for _, a := range []string{"2001:db8:a::1", "2001:db8:f::7"} {
		if got := r.memory.nexthops[r.look(a)]; got != want {
			t.Errorf("%s leads to %v, want %v", a, got, want)
		}
	}
	r.LinkGone(7)
	if got := r.memory.nexthops[r.look("10.64.3.4")]; got.Kind != state.NexthopStack {
		t.Errorf("without the device it leads to %v", got)
	}
}

// look returns the number of the next hop of an address.
func (r *rig) look(a string) uint32 {
	r.t.Helper()
	addr := netip.MustParseAddr(a)
	n, ok := r.fibs[familyOf(addr)].Lookup(addr)
	if !ok {
		r.t.Fatalf("%s has no route", a)
	}
	return n
}
