package route

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/fib"
	"weft/internal/state"
)

// memory is a Tables that remembers, and counts the stores of next hops.
type memory struct {
	nexthops   map[uint32]state.Nexthop
	neighbours map[uint32]state.NeighbourEntry
	groups     map[uint32][]uint32
	stores     int
	graces     int
	fail       error
}

func (m *memory) SetNexthop(n uint32, h state.Nexthop) error {
	m.nexthops[n] = h
	m.stores++
	return m.fail
}

func (m *memory) SetNeighbour(n uint32, e state.NeighbourEntry) error {
	for number, h := range m.nexthops {
		if h.Kind == state.NexthopNeighbour && h.Index == n {
			return fmt.Errorf("neighbour %d is written while next hop %d leads to it", n, number)
		}
	}
	m.neighbours[n] = e
	return nil
}

func (m *memory) SetGroup(at uint32, members []uint32) error {
	m.groups[at] = slices.Clone(members)
	return nil
}
func (m *memory) Grace() error { m.graces++; return nil }

// rig is a service with two links, a gateway on each, and a small table.
type rig struct {
	*Service
	t      *testing.T
	memory *memory
	fibs   [2]*fib.Table
}

const spare = 1 << 16

func newRig(t *testing.T, n Numbers) *rig {
	t.Helper()
	r := &rig{t: t, memory: &memory{map[uint32]state.Nexthop{}, map[uint32]state.NeighbourEntry{}, map[uint32][]uint32{}, 0, 0, nil}}
	var err error
	if r.fibs[0], err = fib.New4(make([]uint32, fib.MinWords4+spare)); err == nil {
		r.fibs[1], err = fib.New6(make([]uint32, fib.MinWords6+spare))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Service = New(r.memory, n, TableSpec{Kernel: state.TableMain, IPv4: r.fibs[0], IPv6: r.fibs[1]})
	r.Begin()
	r.all()
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return r
}

// all is what a listing of the kernel tells at first.
func (r *rig) all() {
	for i := 1; i <= 2; i++ {
		r.Link(state.KernelLink{Index: i, Name: fmt.Sprintf("eth%d", i), MAC: [6]byte{2, 0, 0, 0, 0, byte(i)}, MTU: 1500, Up: true, Ethernet: true, XDPTarget: true})
		r.add(fmt.Sprintf("10.0.%d.0/24", i), fmt.Sprintf("dev %d", i))
		r.add(fmt.Sprintf("2001:db8:%d::/64", i), fmt.Sprintf("dev %d", i))
		r.neighbour(i, fmt.Sprintf("10.0.%d.9", i), state.NeighbourReachable)
		r.neighbour(i, fmt.Sprintf("2001:db8:%d::9", i), state.NeighbourReachable)
	}
	r.Rules(plainRules())
}

func plainRules() (rules []state.KernelRule) {
	for _, six := range []bool{false, true} {
		for i, table := range []uint32{state.TableLocal, state.TableMain} {
			rules = append(rules, state.KernelRule{IPv6: six, Priority: uint32(i), Table: table, Lookup: true, Plain: true})
		}
	}
	return rules
}

func (r *rig) neighbour(device int, a string, s state.NeighbourState) {
	addr := netip.MustParseAddr(a)
	b := addr.As16()
	r.Neighbour(state.KernelNeighbour{Device: device, Addr: addr, MAC: [6]byte{6, b[12], b[13], b[14], b[15], byte(device)}, State: s})
}

// route reads words like "via 10.0.1.9 dev 1 weight 2 via ... metric 5".
func (r *rig) route(prefix, how string) state.KernelRoute {
	k := state.KernelRoute{Prefix: netip.MustParsePrefix(prefix), Table: state.TableMain, Type: state.RouteUnicast}
	words := strings.Fields(how)
	hop := func() *state.KernelHop {
		if len(k.Hops) == 0 {
			k.Hops = append(k.Hops, state.KernelHop{Weight: 1})
		}
		return &k.Hops[len(k.Hops)-1]
	}
	for i := 0; i < len(words); i += 2 {
		number := 0
		if i+1 < len(words) {
			fmt.Sscan(words[i+1], &number)
		}
		switch words[i] {
		case "via":
			k.Hops = append(k.Hops, state.KernelHop{Gateway: netip.MustParseAddr(words[i+1]), Weight: 1})
		case "dev":
			hop().Device = number
		case "weight":
			hop().Weight = number
		case "metric":
			k.Metric = uint32(number)
		case "mtu":
			k.MTU = uint32(number)
		case "nhid":
			k.Object = uint32(number)
		case "tos":
			k.TOS = uint8(number)
		case "type":
			k.Type, k.Hops = state.RouteType(number), nil
		case "table":
			k.Table = uint32(number)
		case "source":
			k.SourceOf = true
		default:
			r.t.Fatalf("%q", words[i])
		}
	}
	return k
}

func (r *rig) events(change state.RouteChange, prefix, how string) {
	k := r.route(prefix, how)
	r.Route(&k, change)
	if err := r.Err(); err != nil {
		r.t.Fatal(err)
	}
}
func (r *rig) add(prefix, how string)     { r.events(state.RouteAdded, prefix, how) }
func (r *rig) del(prefix, how string)     { r.events(state.RouteDeleted, prefix, how) }
func (r *rig) replace(prefix, how string) { r.events(state.RouteReplaced, prefix, how) }

// way returns where packets to an address go.
func (r *rig) way(a string) string {
	addr := netip.MustParseAddr(a)
	n, ok := r.fibs[familyOf(addr)].Lookup(addr)
	if !ok {
		return "nothing"
	}
	return r.words(n)
}

func (r *rig) words(n uint32) string {
	h := r.memory.nexthops[n]
	switch h.Kind {
	case state.NexthopNeighbour:
		e := r.memory.neighbours[h.Index]
		s := fmt.Sprintf("%d:%x", e.IfIndex, e.Dst)
		if e.MTU != 1500 {
			s += fmt.Sprintf(" mtu %d", e.MTU)
		}
		if e.Tags.Len() > 0 {
			s += " " + e.Tags.String()
		}
		return s
	case state.NexthopGroup:
		count := map[string]int{}
		for _, m := range r.memory.groups[h.Index] {
			count[r.words(m)]++
		}
		var list []string
		for _, w := range slices.Sorted(maps.Keys(count)) {
			list = append(list, fmt.Sprintf("%dx %s", count[w], w))
		}
		return strings.Join(list, ", ")
	}
	return h.Kind.String()
}

func (r *rig) expect(a, want string) {
	r.t.Helper()
	if got := r.way(a); got != want {
		r.t.Errorf("%s goes to %q, want %q", a, got, want)
	}
}

const (
	gateway1  = "1:060a00010901"
	gateway2  = "2:060a00020902"
	gateway61 = "1:060000000901"
)

func TestRoutesLeadToTheirGateways(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.add("198.51.100.0/24", "via 10.0.1.9 dev 1")
	r.add("198.51.100.128/25", "via 10.0.2.9 dev 2 metric 20")
	r.add("203.0.113.0/24", "via 10.0.2.9 dev 2 mtu 1400")
	r.add("2001:db8:ff::/48", "via 2001:db8:1::9 dev 1 metric 1024")
	r.add("192.0.2.0/24", "type 6")
	r.add("192.0.2.64/26", "type 7")
	r.add("10.0.1.1/32", "type 2 table 255")
	r.add("100.64.0.0/10", "via 2001:db8:1::9 dev 1")
	for a, want := range map[string]string{
		"198.51.100.1": gateway1, "198.51.100.200": gateway2, "203.0.113.1": gateway2 + " mtu 1400", "2001:db8:ff::1": gateway61,
		"192.0.2.1": "blackhole", "192.0.2.65": "unreachable", "10.0.1.1": "local", "8.8.8.8": "nothing", "100.64.1.1": gateway61,
		"10.0.1.9": gateway1, "10.0.1.77": "stack", "2001:db8:1::9": gateway61, "2001:db8:1::77": "stack",
	} {
		r.expect(a, want)
	}
	r.del("198.51.100.128/25", "via 10.0.2.9 dev 2 metric 20")
	r.expect("198.51.100.200", gateway1)
}

func TestAGatewaysChangeIsOneWriteForAllItsRoutes(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	for i := range 1000 {
		r.add(fmt.Sprintf("20.0.%d.%d/26", i/4, i%4*64), "via 10.0.1.9 dev 1")
	}
	before := r.memory.stores
	r.Neighbour(state.KernelNeighbour{Device: 1, Addr: netip.MustParseAddr("10.0.1.9"), MAC: [6]byte{9, 9}, State: state.NeighbourReachable})
	if n := r.memory.stores - before; n != 1 {
		t.Errorf("%d stores, want 1", n)
	}
	r.expect("20.0.3.3", "1:090900000000")
	r.neighbour(1, "10.0.1.9", state.NeighbourFailed)
	r.expect("20.0.3.3", "stack")
	r.expect("10.0.1.9", "stack")
	r.neighbour(1, "10.0.1.9", state.NeighbourReachable)
	r.expect("20.0.3.3", gateway1)
	before = r.memory.stores
	r.neighbour(1, "10.0.1.9", state.NeighbourStale)
	r.neighbour(1, "10.0.1.9", state.NeighbourDelay)
	if n := r.memory.stores - before; n != 0 {
		t.Errorf("%d stores for a change that changes nothing", n)
	}
	// entries come back after a grace period, so they never run out
	for i := range 20_000 {
		r.Neighbour(state.KernelNeighbour{Device: 1, Addr: netip.MustParseAddr("10.0.1.9"), MAC: [6]byte{1, byte(i), byte(i >> 8)}, State: state.NeighbourReachable})
		if i%100 == 0 {
			if err := r.Reclaim(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.expect("20.0.3.3", fmt.Sprintf("1:01%02x%02x000000", 19_999&255, 19_999>>8))
}

func TestALinkThatGoesDownLeavesItsRoutesToTheKernelAtOnce(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.add("198.51.100.0/24", "via 10.0.1.9 dev 1")
	r.add("203.0.113.0/24", "via 10.0.1.9 dev 1 weight 3 via 10.0.2.9 dev 2")
	r.expect("203.0.113.1", "3x "+gateway1+", 1x "+gateway2)
	l := state.KernelLink{Index: 1, Name: "eth1", MAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500, Ethernet: true}
	r.Link(l)
	r.expect("198.51.100.1", "stack")
	r.expect("203.0.113.1", "1x "+gateway2+", 3x stack")
	if !r.Stale() {
		t.Error("routes may have gone without news, and it does not want a listing")
	}
	// the listing says that the kernel has taken the first one away
	r.Begin()
	r.Link(l)
	r.Link(state.KernelLink{Index: 2, Name: "eth2", MAC: [6]byte{2, 0, 0, 0, 0, 2}, MTU: 9000, Up: true, Ethernet: true})
	r.neighbour(2, "10.0.2.9", state.NeighbourReachable)
	r.add("10.0.2.0/24", "dev 2")
	r.add("203.0.113.0/24", "via 10.0.2.9 dev 2")
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	r.expect("198.51.100.1", "nothing")
	r.expect("203.0.113.1", gateway2+" mtu 9000")
	r.expect("10.0.1.9", "nothing")
	if r.Stale() {
		t.Error("it wants another listing right after one")
	}
}

func TestWhatOnlyTheKernelUnderstandsIsLeftToIt(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	encap := r.route("20.0.0.0/24", "via 10.0.1.9 dev 1")
	encap.Hops[0].Encap = true
	r.Route(&encap, state.RouteAdded)
	r.add("20.0.1.0/24", "via 10.0.1.9 dev 1")
	r.add("20.0.1.0/24", "via 10.0.2.9 dev 2 tos 16")
	r.add("20.0.2.0/24", "via 10.0.1.9 dev 1")
	r.events(state.RouteAppended, "20.0.2.0/24", "via 10.0.2.9 dev 2")
	r.add("20.0.3.0/24", "type 9")
	r.add("2001:db8:a::/48", "via 2001:db8:1::9 dev 1 source 1")
	r.add("20.0.4.0/24", "via 10.0.1.9 dev 1 dev 1 metric 3")
	r.add("20.0.4.0/24", "via 10.0.2.9 dev 2 metric 2")
	for _, a := range []string{"20.0.0.1", "20.0.1.1", "20.0.2.1", "20.0.3.1", "2001:db8:a::1"} {
		r.expect(a, "stack")
	}
	r.expect("20.0.4.1", gateway2)
	var said []string
	for _, l := range r.Status().Stack {
		said = append(said, fmt.Sprintf("%d %s %s", l.Routes, l.Family, l.Why))
	}
	for _, want := range []why{whyEncap, whyType, whySource, whyUnsure} {
		if !strings.Contains(strings.Join(said, "\n"), string(want)) {
			t.Errorf("no reason %q among\n%s", want, strings.Join(said, "\n"))
		}
	}
	r.del("20.0.2.0/24", "via 10.0.1.9 dev 1")
	r.expect("20.0.2.1", gateway2)
}

func TestTheTableLocalComesFirst(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.add("20.1.2.0/24", "via 10.0.1.9 dev 1")
	r.add("20.1.0.0/16", "type 2 table 255")
	r.expect("20.1.2.1", "stack") // which of the two it takes the kernel knows
	r.expect("20.1.3.1", "local")
	r.add("20.1.4.0/24", "via 10.0.1.9 dev 1")
	r.expect("20.1.4.1", "stack")
	r.del("20.1.0.0/16", "type 2 table 255")
	r.expect("20.1.2.1", gateway1)
	r.expect("20.1.4.1", gateway1)
	r.add("20.1.2.0/24", "type 2 table 255")
	r.expect("20.1.2.1", "local")
}

func TestObjectsAndTheirGroupsChangeForAllRoutesAtOnce(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	object := func(id uint32, gateway string, device int) state.NexthopObject {
		return state.NexthopObject{ID: id, Hop: state.KernelHop{Gateway: netip.MustParseAddr(gateway), Device: device, Weight: 1}}
	}
	r.Object(object(1, "10.0.1.9", 1))
	r.Object(object(2, "10.0.2.9", 2))
	r.Object(state.NexthopObject{ID: 3, Group: []state.ObjectMember{{ID: 1, Weight: 1}, {ID: 2, Weight: 2}}})
	r.add("20.0.0.0/24", "nhid 1")
	r.add("20.0.1.0/24", "nhid 3")
	r.expect("20.0.0.1", gateway1)
	r.expect("20.0.1.1", "1x "+gateway1+", 2x "+gateway2)
	r.Object(object(1, "10.0.2.9", 2))
	r.expect("20.0.0.1", gateway2)
	r.expect("20.0.1.1", "3x "+gateway2)
	r.neighbour(2, "10.0.2.9", state.NeighbourFailed)
	r.expect("20.0.0.1", "stack")
	r.expect("20.0.1.1", "3x stack")
	r.neighbour(2, "10.0.2.9", state.NeighbourReachable)
	r.Object(state.NexthopObject{ID: 1, Blackhole: true})
	r.expect("20.0.0.1", "blackhole")
	r.expect("20.0.1.1", "stack") // a group with a blackhole
	r.ObjectGone(1)
	r.expect("20.0.0.1", "stack")
}

func TestGatewaysOfIPv6JoinAndLeaveOneRoute(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	const p = "2001:db8:a::/48"
	r.add(p, "via 2001:db8:1::9 dev 1")
	r.events(state.RouteAppended, p, "via 2001:db8:1::9 dev 1 via 2001:db8:2::9 dev 2")
	r.expect("2001:db8:a::1", "1x "+gateway61+", 1x 2:060000000902")
	r.del(p, "via 2001:db8:1::9 dev 1")
	r.expect("2001:db8:a::1", "2:060000000902")
	r.replace(p, "via 2001:db8:1::9 dev 1")
	r.expect("2001:db8:a::1", gateway61)
	r.del(p, "via 2001:db8:1::9 dev 1")
	r.expect("2001:db8:a::1", "nothing")
}

func TestARuleThatWeftDoesNotFollowLeavesTheFamilyToTheKernel(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.add("20.0.0.0/24", "via 10.0.1.9 dev 1")
	r.add("20.0.1.0/24", "type 6")
	r.add("2001:db8:a::/48", "via 2001:db8:1::9 dev 1")
	odd := state.KernelRule{Priority: 0, Table: 7, Lookup: true, Text: "5: from 192.0.2.0/24 lookup 7"}
	harmless := state.KernelRule{Priority: 0, Table: 7, Lookup: true, LocalOnly: true}
	r.Rules(append([]state.KernelRule{harmless}, plainRules()...))
	r.expect("20.0.0.1", gateway1)
	r.Rules(append([]state.KernelRule{odd}, plainRules()...))
	r.expect("20.0.0.1", "stack")
	r.expect("20.0.1.1", "stack")
	r.expect("2001:db8:a::1", gateway61)
	if why := r.Suspended()[0]; !strings.Contains(why, "from 192.0.2.0/24") {
		t.Errorf("it says %q", why)
	}
	r.add("20.0.2.0/24", "via 10.0.2.9 dev 2") // goes on meanwhile
	r.neighbour(1, "10.0.1.9", state.NeighbourFailed)
	r.Rules(append(plainRules(), odd)) // behind the main table it matters to the kernel alone
	r.expect("20.0.0.1", "stack")
	r.neighbour(1, "10.0.1.9", state.NeighbourReachable)
	r.expect("20.0.0.1", gateway1)
	r.expect("20.0.2.1", gateway2)
	r.Rules(nil)
	r.expect("20.0.2.1", "stack")
}

func TestATableWithoutRoomLeavesTheFamilyToTheKernel(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.add("20.0.0.0/24", "via 10.0.1.9 dev 1")
	for i := 0; r.Suspended()[0] == ""; i++ {
		if i > spare {
			t.Fatal("the table never fills up")
		}
		r.add(fmt.Sprintf("30.%d.%d.128/25", i>>8&255, i&255), "via 10.0.2.9 dev 2")
	}
	if r.memory.graces == 0 {
		t.Error("it did not try to reclaim what waits for a grace period")
	}
	r.expect("20.0.0.1", "stack")
	r.expect("30.0.0.129", "stack")
	if why := r.Suspended()[0]; !strings.Contains(why, "no room") {
		t.Errorf("it says %q", why)
	}
}

// After lost events the old routes and the new ones need not fit into the table together:
// those that are gone leave it first.
func TestADumpThatReplacesAllRoutesOfAFullTableFits(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	fill := func(net int) (last string) {
		for i := range 1200 {
			last = fmt.Sprintf("%d.%d.%d.128", net, i>>8, i&255)
			r.add(last+"/25", "via 10.0.2.9 dev 2")
		}
		return last
	}
	fill(30)
	if used := r.fibs[0].Used() - fib.MinWords4; used < spare/2+spare/8 || r.Suspended()[0] != "" {
		t.Fatalf("1200 routes take %d of %d words (%s): the test wants more than half", used, spare, r.Suspended()[0])
	}
	r.Begin()
	r.all()
	last := fill(40)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if why := r.Suspended()[0]; why != "" {
		t.Errorf("the family is left to the kernel: %s", why)
	}
	r.expect(last[:len(last)-3]+"129", gateway2)
}

func TestNextHopsThatAreNoLongerUsedComeBack(t *testing.T) {
	r := newRig(t, Numbers{100, 160})
	for i := range 300 {
		gateway := fmt.Sprintf("via 10.0.1.%d dev 1", 10+i%200)
		r.add("20.0.0.0/24", gateway)
		r.neighbour(1, fmt.Sprintf("10.0.1.%d", 10+i%200), state.NeighbourReachable)
		if got := r.way("20.0.0.1"); !strings.HasPrefix(got, "1:06") {
			t.Fatalf("round %d: %s, the numbers ran out: %+v", i, got, r.Status())
		}
		r.del("20.0.0.0/24", gateway)
		r.NeighbourGone(state.KernelNeighbour{Device: 1, Addr: netip.MustParseAddr(fmt.Sprintf("10.0.1.%d", 10+i%200))})
		if err := r.Reclaim(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range r.memory.nexthops {
		if n < 100 || n > 160 {
			t.Errorf("next hop %d is not one of its own", n)
		}
	}
	// when there are none left, the kernel has the rest
	for i := range 100 {
		r.add(fmt.Sprintf("30.0.%d.0/24", i), fmt.Sprintf("via 10.0.2.%d dev 2", 10+i))
	}
	r.expect("30.0.99.1", "stack")
	if s := r.Status(); !slices.ContainsFunc(s.Stack, func(l LeftOver) bool { return l.Why == string(whyFull) && l.Routes > 50 }) {
		t.Errorf("it does not say so: %+v", s.Stack)
	}
}

func TestGatewaysInUseAreAskedForAndConfirmed(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.Unresolved(100)
	asked := func() (list []string) {
		for _, n := range r.Unresolved(100) {
			list = append(list, fmt.Sprintf("%s dev %d", n.Addr, n.Device))
		}
		return list
	}
	r.add("20.0.0.0/24", "via 10.0.1.5 dev 1")
	if got := asked(); !slices.Equal(got, []string{"10.0.1.5 dev 1"}) {
		t.Errorf("a new gateway: asked for %v", got)
	}
	r.neighbour(1, "10.0.1.5", state.NeighbourReachable)
	r.neighbour(1, "10.0.1.77", state.NeighbourStale) // a host that has an entry of its own
	r.neighbour(1, "10.0.1.5", state.NeighbourStale)
	if got := asked(); !slices.Equal(got, []string{"10.0.1.77 dev 1", "10.0.1.5 dev 1"}) {
		t.Errorf("stale: asked for %v", got)
	}
	r.neighbour(1, "10.0.1.5", state.NeighbourFailed)
	r.neighbour(1, "10.0.1.5", state.NeighbourStale)
	r.del("20.0.0.0/24", "via 10.0.1.5 dev 1")
	r.del("10.0.1.0/24", "dev 1")
	r.neighbour(1, "10.0.1.77", state.NeighbourProbe)
	r.neighbour(1, "10.0.1.77", state.NeighbourStale)
	if got := asked(); len(got) != 0 {
		t.Errorf("nothing leads there any more: asked for %v", got)
	}
}

func TestVLANsAndBridgesLeadToTheDeviceThatSends(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.Link(state.KernelLink{Index: 20, Name: "eth1.5", Kind: "vlan", MAC: [6]byte{2, 2}, MTU: 1496, Up: true, Ethernet: true, Lower: 1, VLAN: 5, VLANProto: state.VLANCustomer})
	r.Link(state.KernelLink{Index: 21, Name: "br0", Kind: "bridge", MAC: [6]byte{2, 3}, MTU: 1500, Up: true, Ethernet: true})
	r.add("10.1.0.0/24", "dev 20")
	r.neighbour(20, "10.1.0.9", state.NeighbourReachable)
	r.add("10.2.0.0/24", "dev 21")
	r.neighbour(21, "10.2.0.9", state.NeighbourReachable)
	r.expect("10.1.0.9", fmt.Sprintf("1:%x mtu 1496 vlan 5", [6]byte{6, 10, 1, 0, 9, 20}))
	r.expect("10.2.0.9", "stack") // behind which port?
	mac := [6]byte{6, 10, 2, 0, 9, 21}
	r.BridgeEntry(state.BridgeEntry{Bridge: 21, Port: 2, MAC: mac})
	r.expect("10.2.0.9", fmt.Sprintf("2:%x", mac))
	r.BridgeEntry(state.BridgeEntry{Bridge: 21, Port: 1, MAC: mac})
	r.expect("10.2.0.9", fmt.Sprintf("1:%x", mac))
	r.BridgeEntryGone(state.BridgeEntry{Bridge: 21, Port: 1, MAC: mac})
	r.expect("10.2.0.9", "stack")
	r.LinkGone(1)
	r.expect("10.1.0.9", "stack")
}

func TestAVRFHasItsOwnTable(t *testing.T) {
	m := &memory{map[uint32]state.Nexthop{}, map[uint32]state.NeighbourEntry{}, map[uint32][]uint32{}, 0, 0, nil}
	var specs []TableSpec
	for _, id := range []uint32{state.TableMain, 1000} {
		four, err4 := fib.New4(make([]uint32, fib.MinWords4+spare))
		six, err6 := fib.New6(make([]uint32, fib.MinWords6+spare))
		if err := errors.Join(err4, err6); err != nil {
			t.Fatal(err)
		}
		specs = append(specs, TableSpec{id, four, six})
	}
	s := New(m, Numbers{1, 1000}, specs...)
	r := &rig{Service: s, t: t, memory: m, fibs: [2]*fib.Table{specs[1].IPv4, specs[1].IPv6}}
	s.Begin()
	r.all()
	r.Link(state.KernelLink{Index: 30, Name: "red", Kind: "vrf", VRFTable: 1000, Up: true})
	r.Link(state.KernelLink{Index: 3, Name: "eth3", MAC: [6]byte{2, 9}, MTU: 1500, Up: true, Ethernet: true, Master: 30})
	r.add("10.0.1.0/24", "dev 3 table 1000")
	r.add("20.0.0.0/24", "via 10.0.1.9 dev 3 table 1000")
	r.neighbour(3, "10.0.1.9", state.NeighbourReachable)
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	r.expect("20.0.0.1", "3:060a00010903")
	r.expect("10.0.1.9", "3:060a00010903")
	r.fibs = [2]*fib.Table{specs[0].IPv4, specs[0].IPv6}
	r.expect("20.0.0.1", "nothing")
	r.expect("10.0.1.9", gateway1)
	r.Link(state.KernelLink{Index: 3, Name: "eth3", MAC: [6]byte{2, 9}, MTU: 1500, Up: true, Ethernet: true})
	r.fibs = [2]*fib.Table{specs[1].IPv4, specs[1].IPv6}
	r.expect("10.0.1.9", "stack") // it has left the VRF
}

func TestAnErrorOfTheDatapathIsKept(t *testing.T) {
	r := newRig(t, Numbers{1, 4000})
	r.memory.fail = errors.New("no such map")
	k := r.route("20.0.0.0/24", "via 10.0.1.9 dev 1 mtu 1300")
	r.Route(&k, state.RouteAdded)
	if r.Err() == nil {
		t.Error("it is gone")
	}
}
