package offload

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weft/internal/state"
)

// uplinks is a model of a router between a member and two uplinks that gets
// routes for some prefixes by one or the other.
type uplinks struct {
	t        *testing.T
	r        *rand.Rand
	s        *Service
	f        *fake
	routes   map[netip.Prefix]int // to which uplink; 0: blackhole
	standard int                  // of what has no route of its own
}

const otherIndex = 4

var otherGateway = netip.MustParseAddr("198.51.100.77")

func newUplinks(t *testing.T) *uplinks {
	s, f := newTest()
	s.Begin()
	s.Link(state.KernelLink{Index: otherIndex, MAC: [6]byte{2, 0, 0, 0, 0, 4}, MTU: 1500, Up: true, Ethernet: true})
	s.Neighbour(state.KernelNeighbour{Device: otherIndex, Addr: otherGateway, MAC: [6]byte{2, 0, 0, 0, 1, 4}, State: state.NeighbourReachable})
	s.End()
	m := &uplinks{t: t, r: rand.New(rand.NewPCG(5, 6)), s: s, f: f, routes: map[netip.Prefix]int{}, standard: wanIndex}
	f.via = m.way
	return m
}

// uplink gives where packets to an address go by the longest prefix.
func (m *uplinks) uplink(to netip.Addr) int {
	for bits := 32; bits >= 8; bits-- {
		p, _ := to.Prefix(bits)
		if out, there := m.routes[p]; there {
			return out
		}
	}
	return m.standard
}

func (m *uplinks) way(to netip.Addr) state.FlowPath {
	if to == member {
		return state.FlowPath{Device: lanIndex, Gateway: member, Unicast: true}
	}
	switch m.uplink(to) {
	case wanIndex:
		return state.FlowPath{Device: wanIndex, Gateway: gateway, Unicast: true}
	case otherIndex:
		return state.FlowPath{Device: otherIndex, Gateway: otherGateway, Unicast: true}
	}
	return state.FlowPath{}
}

// change is an update of a route as a routing daemon makes it.
func (m *uplinks) change(p netip.Prefix) {
	old, there := m.routes[p]
	r := &state.KernelRoute{Prefix: p, Table: state.TableMain, Type: state.RouteUnicast}
	switch choice := m.r.IntN(8); {
	case choice == 0 && there:
		delete(m.routes, p)
		m.s.Route(r, state.RouteDeleted)
		return
	case choice == 1:
		m.routes[p] = 0
		r.Type = state.RouteBlackhole
	case old == wanIndex:
		m.routes[p] = otherIndex
	default:
		m.routes[p] = wanIndex
	}
	m.s.Route(r, state.RouteReplaced)
}

// to is a connection of the member's with a server.
func to(server netip.Addr, port uint16) state.Connection {
	c := masqueraded(port)
	c.Orig.Dst, c.Reply.Src = server.As16(), server.As16()
	return c
}

// passed is a packet of a connection that the stack has routed as the model says.
func (m *uplinks) passed(c state.Connection, back bool) state.PassedFlow {
	p := m.f.passed(c, back)
	if up := m.uplink(c.Reply.From()); back {
		p.Interface = uint32(up)
	} else if up == otherIndex {
		p.Device, p.Link = otherIndex, state.FlowLink{Dst: [6]byte{2, 0, 0, 0, 1, 4}, Src: [6]byte{2, 0, 0, 0, 0, 4}}
	}
	return p
}

// Where a hundred routes a second change, as in a full BGP table, only flows
// whose route it is are taken back, and no packet goes where its route does not
// lead any more.
func TestRoutesThatChangeAllTheTime(t *testing.T) {
	m := newUplinks(t)
	r := m.r
	servers := make([]netip.Addr, 300)
	conns := make([]state.Connection, len(servers))
	for i := range servers {
		servers[i] = netip.AddrFrom4([4]byte{203, byte(r.IntN(4)), byte(r.IntN(64)), byte(r.IntN(256))})
		conns[i] = to(servers[i], uint16(1000+i))
		m.f.track(conns[i])
	}
	forwarded, may := 0, 0
	changes := 0
	start := m.f.generation
	bumps := uint32(0)
	for n := range 300000 { // a millisecond each
		if n%10 == 0 { // a hundred a second
			changes++
			p, _ := netip.AddrFrom4([4]byte{byte(16 + r.IntN(180)), byte(r.IntN(256)), byte(r.IntN(256))}).Prefix(16 + r.IntN(9))
			if r.IntN(100) == 0 { // one in a hundred is of a server's
				p, _ = servers[r.IntN(len(servers))].Prefix(20 + r.IntN(13))
			}
			m.change(p)
			continue
		}
		if n%50000 == 1 { // the default route: rare, and all may go another way
			m.standard = wanIndex + otherIndex - m.standard
			before := m.f.generation
			m.s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Type: state.RouteUnicast}, state.RouteReplaced)
			bumps += m.f.generation - before
		}
		i, back := r.IntN(len(conns)), r.IntN(2) == 0
		c, up := conns[i], m.uplink(servers[i])
		key := state.FlowKey{Interface: lanIndex, Tuple: c.Orig}
		if back {
			key = state.FlowKey{Interface: uint32(up), Tuple: c.Reply}
		}
		flow, offloaded := m.f.flows[key]
		hop := m.f.hops[flow.Hop]
		offloaded = offloaded && flow.Generation == m.f.generation && hop.Device != 0
		switch {
		case up == 0 && offloaded && !back:
			t.Fatalf("a packet to %s is forwarded, whose route is a blackhole", servers[i])
		case up == 0:
		case offloaded && !back && hop.Device != uint32(up):
			t.Fatalf("a packet to %s leaves by %d, its route is by %d", servers[i], hop.Device, up)
		case offloaded:
			forwarded++
			may++
		default:
			may++
			offer(t, m.s, m.passed(c, back))
		}
	}
	if float64(forwarded) < 0.95*float64(may) {
		t.Errorf("%d of %d packets that may be were offloaded, with %d changes of routes", forwarded, may, changes)
	}
	if got := m.f.generation - start; got != bumps {
		t.Errorf("all flows were taken back %d times by changes of routes", got-bumps)
	}
	if st := m.s.Status(0); st.RouteEvents < uint64(changes) || st.RouteHits > st.RouteEvents/20 {
		t.Errorf("%d of %d changes took flows back", st.RouteHits, st.RouteEvents)
	}
}

// What a change of the kernel's takes back: all flows, those by a way out, one
// connection, or nothing.
func TestWhatNewsTakeBack(t *testing.T) {
	near, far := netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("192.0.2.200")
	unicast := func(p string) *state.KernelRoute {
		return &state.KernelRoute{Prefix: netip.MustParsePrefix(p), Type: state.RouteUnicast}
	}
	wan := state.KernelLink{Index: wanIndex, MAC: macs[wanIndex], MTU: 1500, Up: true, Ethernet: true}
	alter := func(l state.KernelLink, do func(*state.KernelLink)) state.KernelLink { do(&l); return l }
	object := state.NexthopObject{ID: 7, Hop: state.KernelHop{Device: wanIndex, Gateway: gateway}}
	other := state.NexthopObject{ID: 8, Hop: state.KernelHop{Device: otherIndex, Gateway: otherGateway}}
	for _, tt := range []struct {
		name string
		near bool // what is left of the connection with near, which goes by wan
		far  bool // of that with far, which goes by the other uplink
		do   func(*Service)
	}{
		{"a route that no flow uses", true, true, func(s *Service) { s.Route(unicast("100.64.0.0/10"), state.RouteAdded) }},
		{"a route within whose prefix one server is", false, true, func(s *Service) { s.Route(unicast("203.0.113.0/24"), state.RouteReplaced) }},
		{"one's own route", true, false, func(s *Service) { s.Route(unicast("192.0.2.200/32"), state.RouteDeleted) }},
		{"the member's route", false, false, func(s *Service) { s.Route(unicast("10.0.0.0/24"), state.RouteReplaced) }},
		{"the default route", false, false, func(s *Service) { s.Route(unicast("0.0.0.0/0"), state.RouteReplaced) }},
		{"the default route of IPv6", true, true, func(s *Service) { s.Route(unicast("::/0"), state.RouteReplaced) }},
		{"a link-local route", true, true, func(s *Service) { s.Route(unicast("fe80::/64"), state.RouteAdded) }},
		{"routes that may have gone", false, false, func(s *Service) { s.RoutesMayBeGone() }},
		{"an address, where rules ask for the router's own", false, false, func(s *Service) {
			s.SetPolicy(Policy{Local: true})
			s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("100.64.0.1/32"), Type: state.RouteLocal}, state.RouteAdded)
		}},
		{"an address, where none does", true, true, func(s *Service) {
			s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("100.64.0.1/32"), Type: state.RouteLocal}, state.RouteAdded)
		}},
		{"rules", false, false, func(s *Service) { s.Rules([]state.KernelRule{{Table: 100}}) }},
		{"the same rules again", true, true, func(s *Service) { s.Rules(nil) }},
		{"a link that goes down", false, true, func(s *Service) { s.Link(alter(wan, func(l *state.KernelLink) { l.Up = false })) }},
		{"another MTU", false, true, func(s *Service) { s.Link(alter(wan, func(l *state.KernelLink) { l.MTU = 1400 })) }},
		{"a program that lets XDP send there", false, true, func(s *Service) { s.Link(alter(wan, func(l *state.KernelLink) { l.XDPTarget = true })) }},
		{"another name, which rules may match", false, false, func(s *Service) { s.Link(alter(wan, func(l *state.KernelLink) { l.Name = "x" })) }},
		{"another master", false, false, func(s *Service) { s.Link(alter(wan, func(l *state.KernelLink) { l.Master = 9 })) }},
		{"a link that is new, and comes up", true, true, func(s *Service) {
			s.Link(state.KernelLink{Index: 50})
			s.Link(state.KernelLink{Index: 50, Up: true})
		}},
		{"a link that comes up again", false, false, func(s *Service) {
			for _, up := range []bool{true, false, true} {
				s.Link(state.KernelLink{Index: 50, Up: up})
			}
		}},
		{"a link that goes and has no flows", true, true, func(s *Service) {
			s.Link(state.KernelLink{Index: 50, Up: true})
			s.LinkGone(50)
		}},
		{"a link that goes and has some", false, false, func(s *Service) { s.LinkGone(wanIndex) }},
		{"a new next hop object", true, true, func(s *Service) { s.Object(object) }},
		{"the same again", true, true, func(s *Service) { s.Object(object); s.Object(object) }},
		{"one that leads elsewhere now", false, true, func(s *Service) {
			s.Object(object)
			s.Object(state.NexthopObject{ID: 7, Hop: other.Hop})
		}},
		{"one that goes", true, false, func(s *Service) { s.Object(other); s.ObjectGone(8) }},
		{"a group that changes", false, true, func(s *Service) {
			s.Object(object)
			s.Object(other)
			s.Object(state.NexthopObject{ID: 9, Group: []state.ObjectMember{{ID: 7, Weight: 1}}})
			s.Object(state.NexthopObject{ID: 9, Group: []state.ObjectMember{{ID: 8, Weight: 1}}})
		}},
		{"an object of a kind that is not known", false, false, func(s *Service) {
			s.Object(state.NexthopObject{ID: 7, Other: true})
			s.ObjectGone(7)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newUplinks(t)
			m.s.Rules(nil)
			m.routes[netip.MustParsePrefix("192.0.2.0/24")] = otherIndex
			nearby, remote := to(near, 1000), to(far, 2000)
			m.f.track(nearby)
			m.f.track(remote)
			offer(t, m.s, m.passed(nearby, false), m.passed(nearby, true), m.passed(remote, false), m.passed(remote, true))
			tt.do(m.s)
			for _, c := range []struct {
				name string
				conn state.Connection
				want bool
			}{{"near", nearby, tt.near}, {"far", remote, tt.far}} {
				flow, there := m.f.flows[state.FlowKey{Interface: lanIndex, Tuple: c.conn.Orig}]
				got := there && flow.Generation == m.f.generation && m.f.hops[flow.Hop].Device != 0
				if got != c.want {
					t.Errorf("the flow to the %s server is offloaded: %v, want %v", c.name, got, c.want)
				}
			}
		})
	}
}

// Of very many connections within a prefix all flows are taken back, at once.
func TestARouteOfVeryMany(t *testing.T) {
	s, f := newTest()
	learn(t, s, f, 0, backAtOnce+1)
	before := f.generation
	f.calls = 0
	s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("203.0.113.80/32"), Type: state.RouteUnicast}, state.RouteReplaced)
	if f.generation == before || f.calls != 0 {
		t.Errorf("generation %d after %d, %d calls", f.generation, before, f.calls)
	}
}

// The lists by address against one that is looked through.
func TestConnectionsWithinPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	l := connections{at: map[state.FlowTuple]int{}}
	model := map[state.FlowTuple]connection{}
	address := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(4)), byte(r.IntN(8))})
		}
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%x", r.IntN(4), r.IntN(8)))
	}
	for range 1000 {
		from, other := address(), address()
		orig := state.FlowTuple{Src: from.As16(), Dst: other.As16(), SrcPort: uint16(r.IntN(4))}
		if l.get(orig) == nil {
			c := connection{orig: orig, reply: state.FlowTuple{Src: address().As16()}}
			l.add(c)
			model[orig] = c
		} else {
			l.remove(orig)
			delete(model, orig)
		}
		p, _ := address().Prefix(24 + r.IntN(9))
		got, more := l.within(p, 1<<30)
		var want []state.FlowTuple
		for k, c := range model {
			for _, a := range []netip.Addr{c.orig.From(), c.reply.From()} {
				if p.Contains(a) {
					want = append(want, k)
				}
			}
		}
		order := func(a, b state.FlowTuple) int {
			return cmp.Or(bytes.Compare(a.Src[:], b.Src[:]), bytes.Compare(a.Dst[:], b.Dst[:]), int(a.SrcPort)-int(b.SrcPort))
		}
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if more || !slices.Equal(got, want) {
			t.Fatalf("within %s: %v, want %v", p, got, want)
		}
		if len(want) > 1 {
			if some, more := l.within(p, 1); len(some) != 1 || !more {
				t.Fatalf("the first of %d: %v, %v", len(want), some, more)
			}
		}
	}
	if len(l.list) != len(model) {
		t.Errorf("%d connections, want %d", len(l.list), len(model))
	}
}

func BenchmarkRouteNews(b *testing.B) {
	s, f := newTest()
	learn(b, s, f, 0, 500000)
	r := rand.New(rand.NewPCG(1, 2))
	b.ResetTimer()
	for b.Loop() {
		p, _ := netip.AddrFrom4([4]byte{100, byte(r.IntN(256)), byte(r.IntN(256))}).Prefix(24)
		s.Route(&state.KernelRoute{Prefix: p, Type: state.RouteUnicast}, state.RouteReplaced)
	}
}
