package route

import (
	"net/netip"
	"slices"
	"testing"

	"weft/internal/state"
)

func TestWaysAgreeOnlyIfTheyAreTheSame(t *testing.T) {
	a := netip.MustParseAddr("203.0.113.9")
	gateway := netip.MustParseAddr("192.0.2.1")
	neighbours := []state.KernelNeighbour{
		{Device: 2, Addr: gateway, MAC: [6]byte{2, 1}, State: state.NeighbourReachable},
		{Device: 3, Addr: a, MAC: [6]byte{2, 2}, State: state.NeighbourStale},
		{Device: 4, Addr: gateway, MAC: [6]byte{2, 3}, State: state.NeighbourFailed},
	}
	to := func(mac byte) *NexthopRow {
		return &NexthopRow{Kind: "neighbour", entry: state.NeighbourEntry{Dst: [6]byte{2, mac}}}
	}
	by := func(hops ...state.KernelHop) *state.KernelRoute {
		return &state.KernelRoute{Type: state.RouteUnicast, Hops: hops}
	}
	via2, via4, onLink := state.KernelHop{Gateway: gateway, Device: 2}, state.KernelHop{Gateway: gateway, Device: 4}, state.KernelHop{Device: 3}
	for name, c := range map[string]struct {
		hop    *NexthopRow
		kernel *state.KernelRoute
		same   bool
	}{
		"neither has a route":           {nil, nil, true},
		"weft leaves it to the kernel":  {nil, by(via2), true},
		"the neighbour is not resolved": {&NexthopRow{Kind: "stack"}, by(via2), true},
		"weft alone has a route":        {to(1), nil, false},
		"the same gateway":              {to(1), by(via2), true},
		"another gateway":               {to(2), by(via2), false},
		"the host itself":               {to(2), by(onLink), true},
		"a gateway that has failed":     {to(3), by(via4), false},
		"one of the kernel's two":       {to(2), by(via2, onLink), true},
		"both of the kernel's two":      {&NexthopRow{Kind: "group", Members: []NexthopRow{*to(1), *to(2)}}, by(via2, onLink), true},
		"one more than the kernel":      {&NexthopRow{Kind: "group", Members: []NexthopRow{*to(1), *to(2)}}, by(via2), false},
		"both drop":                     {&NexthopRow{Kind: "blackhole"}, &state.KernelRoute{Type: state.RouteBlackhole}, true},
		"weft drops alone":              {&NexthopRow{Kind: "blackhole"}, by(via2), false},
		"the router itself":             {&NexthopRow{Kind: "local"}, &state.KernelRoute{Type: state.RouteAnycast}, true},
		"a prohibit route":              {&NexthopRow{Kind: "unreachable"}, &state.KernelRoute{Type: state.RouteProhibit}, true},
	} {
		if same, words := agree(c.hop, a, c.kernel, neighbours); same != c.same {
			t.Errorf("%s: %v (%s), want %v", name, same, words, c.same)
		}
	}
}

func TestBoundariesAreBothSidesOfBothEnds(t *testing.T) {
	got := boundaries([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2001:db8::/126"), netip.MustParsePrefix("192.0.2.0/25")})
	var want []netip.Addr
	for _, a := range []string{"192.0.1.255", "192.0.2.0", "192.0.2.127", "192.0.2.128", "192.0.2.255", "192.0.3.0",
		"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8::3", "2001:db8::4"} {
		want = append(want, netip.MustParseAddr(a))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestADeviceSendsByTheOneBelowItsVLANs(t *testing.T) {
	tag := func(proto, id uint16) state.VLANTag { return state.VLANTag{Proto: proto, ID: id} }
	links := []state.LinkFact{
		{Name: "eth0", Index: 2, MAC: [6]byte{2}},
		{Name: "eth0.7", Index: 4, Kind: "vlan", Lower: "eth0", Tag: tag(0x88a8, 7)},
		{Name: "eth0.7.9", Index: 5, Kind: "vlan", Lower: "eth0.7", Tag: tag(0x8100, 9)},
		{Name: "far", Index: 6, Kind: "vlan", Tag: tag(0x8100, 3)},
	}
	for index, want := range map[int]struct {
		lowest string
		tags   state.VLANTags
	}{
		2: {"eth0", state.VLANTags{}},
		4: {"eth0", state.VLANTags{tag(0x88a8, 7)}},
		5: {"eth0", state.VLANTags{tag(0x88a8, 7), tag(0x8100, 9)}},
		6: {"far", state.VLANTags{}},
		9: {"", state.VLANTags{}},
	} {
		if _, lowest, tags := below(links, index); lowest.Name != want.lowest || tags != want.tags {
			t.Errorf("device %d sends by %q with %v, want %q with %v", index, lowest.Name, tags, want.lowest, want.tags)
		}
	}
}
