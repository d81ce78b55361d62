package offload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/state"
)

var errFull = errors.New("full")

// world is a fake kernel and datapath.
type fake struct {
	connections map[state.FlowTuple]state.Connection // by either tuple
	zones       map[uint16]map[state.FlowTuple]state.Connection
	flows       map[state.FlowKey]state.Flow
	hops        map[uint32]state.FlowHop
	generation  uint32
	room        int
	kept        []state.KeptConnection
	closed      map[state.FlowKey]bool
	pending     map[state.FlowKey]bool
	beforePut   func()          // what happens between an answer and the flow
	beforeOpen  func()          // and before the flow is used
	strict      []state.FlowKey // opened flows of TCP whose connection was not liberal
	idle        time.Duration
	round       []state.FlowKey                    // that Some has yet to give
	calls, most int                                // of all methods, and the most that one was asked for
	given       int                                // flows that Some found to be of no use
	asked       int                                // those that Look was asked for
	marked      map[uint32]state.FlowPath          // by mark; others as without
	via         func(to netip.Addr) state.FlowPath // routes away from the member; nil: the gateway for all
}

// did counts a call.
func (f *fake) did(n int) {
	f.calls++
	f.most = max(f.most, n)
}

func newFake() *fake {
	return &fake{
		connections: map[state.FlowTuple]state.Connection{}, zones: map[uint16]map[state.FlowTuple]state.Connection{},
		flows: map[state.FlowKey]state.Flow{}, hops: map[uint32]state.FlowHop{}, room: 1 << 20, closed: map[state.FlowKey]bool{}, pending: map[state.FlowKey]bool{},
	}
}

func (f *fake) PutFlows(list []state.Flow) (int, error) {
	f.did(len(list))
	if f.beforePut != nil {
		f.beforePut()
	}
	for i, l := range list {
		if _, there := f.flows[l.FlowKey]; !there && len(f.flows) >= f.room {
			return i, errFull
		}
		f.flows[l.FlowKey] = l
		f.pending[l.FlowKey] = true
		delete(f.closed, l.FlowKey)
	}
	return len(list), nil
}

func (f *fake) OpenFlows(list []state.FlowKey) { // no call: it writes to memory
	if f.beforeOpen != nil {
		f.beforeOpen()
	}
	for _, k := range list {
		if !f.pending[k] || f.closed[k] {
			continue
		}
		delete(f.pending, k)
		if _, there := f.flows[k]; there && k.Tuple.Protocol == state.ProtocolTCP && !f.connections[k.Tuple].Liberal {
			f.strict = append(f.strict, k)
		}
	}
}

func (f *fake) DeleteFlows(list []state.FlowKey) error {
	f.did(len(list))
	for _, k := range list {
		delete(f.flows, k)
	}
	return nil
}

func (f *fake) Forget(list []state.FlowKey) error {
	f.did(len(list))
	return nil
}

func compareFlows(a, b state.FlowKey) int {
	return cmp.Or(
		cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Tuple.Protocol, b.Tuple.Protocol),
		bytes.Compare(a.Tuple.Src[:], b.Tuple.Src[:]), bytes.Compare(a.Tuple.Dst[:], b.Tuple.Dst[:]),
		cmp.Compare(a.Tuple.SrcPort, b.Tuple.SrcPort), cmp.Compare(a.Tuple.DstPort, b.Tuple.DstPort),
	)
}

// someAtOnce is how many the fake gives at a call.
const someAtOnce = 1000

func (f *fake) Some(useful func(state.FlowState) bool, use func(state.FlowUse)) (more bool, err error) {
	if f.round == nil {
		// sorted, so that a history repeats from its seed
		f.round = slices.SortedFunc(maps.Keys(f.flows), compareFlows)
	}
	n := min(someAtOnce, len(f.round))
	f.did(n)
	for _, k := range f.round[:n] {
		u := state.FlowUse{Flow: f.flows[k], Idle: f.idle, Closed: f.closed[k]}
		if _, there := f.flows[k]; there && !useful(u.State()) {
			f.given++
			use(u)
		}
	}
	if f.round = f.round[n:]; len(f.round) == 0 {
		f.round = nil
	}
	return f.round != nil, nil
}

func (f *fake) Look(list []state.FlowKey, use func(int, state.FlowState)) error {
	f.did(len(list))
	f.asked += len(list)
	for i, k := range list {
		if l, there := f.flows[k]; there {
			u := state.FlowUse{Flow: l, Idle: f.idle, Closed: f.closed[k]}
			use(i, u.State())
		}
	}
	return nil
}

func (f *fake) SetHop(n uint32, h state.FlowHop) error     { f.hops[n] = h; return nil }
func (f *fake) SetSession(state.FlowSession, uint32) error { return nil }
func (f *fake) Generation() uint32                         { return f.generation }
func (f *fake) Bump()                                      { f.generation++ }
func (f *fake) Connections(_ context.Context, tuples []state.FlowTuple, zone uint16) ([]state.Connection, error) {
	f.did(len(tuples))
	list := make([]state.Connection, len(tuples))
	for i, t := range tuples {
		if zone == 0 {
			list[i] = f.connections[t]
		} else {
			list[i] = f.zones[zone][t]
		}
	}
	return list, nil
}

const lanIndex, wanIndex = 2, 3

func (f *fake) Paths(_ context.Context, asked []state.FlowAsk) ([]state.FlowPath, error) {
	f.did(len(asked))
	ways := make([]state.FlowPath, len(asked))
	for i, a := range asked {
		ways[i] = state.FlowPath{Device: wanIndex, Gateway: gateway, Unicast: true}
		if w, there := f.marked[a.Mark]; there && a.Interface == lanIndex {
			ways[i] = w
		} else if f.via != nil {
			ways[i] = f.via(a.To)
		} else if a.Interface == wanIndex {
			ways[i] = state.FlowPath{Device: lanIndex, Gateway: member, Unicast: true}
		}
	}
	return ways, nil
}

func (f *fake) Keep(_ context.Context, list []state.KeptConnection) (gone []int, err error) {
	f.did(len(list))
	f.kept = append(f.kept, list...)
	for i, k := range list {
		c := f.connections[k.Orig]
		if c.Status == 0 && k.Zone == 0 {
			gone = append(gone, i)
		} else if k.Liberal && k.Zone == 0 {
			c.Liberal = true
			f.track(c)
		}
	}
	return gone, nil
}

var (
	gateway = netip.MustParseAddr("198.51.100.9")
	member  = netip.MustParseAddr("10.0.0.2")
	macs    = map[int][6]byte{lanIndex: {2, 0, 0, 0, 0, 2}, wanIndex: {2, 0, 0, 0, 0, 3}}
	peers   = map[int][6]byte{lanIndex: {2, 0, 0, 0, 1, 2}, wanIndex: {2, 0, 0, 0, 1, 3}}
)

func newTest() (*Service, *fake) {
	f := newFake()
	s := New(f, f, f, errFull)
	s.Set(Config{Protocols: []Protocol{TCP, UDP}, MinimumPackets: 2, IdleTimeout: time.Minute})
	s.Begin()
	for index, gw := range map[int]netip.Addr{lanIndex: member, wanIndex: gateway} {
		s.Link(state.KernelLink{Index: index, MAC: macs[index], MTU: 1500, Up: true, Ethernet: true})
		s.Neighbour(state.KernelNeighbour{Device: index, Addr: gw, MAC: peers[index], State: state.NeighbourReachable})
	}
	s.End()
	s.SetPolicy(Policy{Tracked4: true, Tracked6: true})
	return s, f
}

// masqueraded is a connection from a port of the member's.
func masqueraded(port uint16) state.Connection {
	orig := state.FlowTuple{Src: member.As16(), Dst: netip.MustParseAddr("203.0.113.80").As16(), SrcPort: port, DstPort: 80, Protocol: state.ProtocolTCP}
	leaves := orig
	leaves.Src, leaves.SrcPort = netip.MustParseAddr("198.51.100.1").As16(), port+1000
	return state.Connection{
		Orig: orig, Reply: leaves.Back(), ID: uint32(port), TCP: state.TCPEstablished, Timeout: time.Hour,
		Status: state.ConnectionConfirmed | state.ConnectionSeenReply | state.ConnectionAssured,
	}
}

func (f *fake) track(c state.Connection) {
	f.connections[c.Orig], f.connections[c.Reply] = c, c
}

func (f *fake) forget(c state.Connection) {
	delete(f.connections, c.Orig)
	delete(f.connections, c.Reply)
}

// passed is a direction of it as it leaves.
func (f *fake) passed(c state.Connection, back bool) state.PassedFlow {
	if back {
		return state.PassedFlow{Interface: wanIndex, Tuple: c.Orig.Back(), Device: lanIndex, Generation: f.generation, Link: state.FlowLink{Dst: peers[lanIndex], Src: macs[lanIndex]}}
	}
	return state.PassedFlow{Interface: lanIndex, Tuple: c.Reply.Back(), Device: wanIndex, Generation: f.generation, Link: state.FlowLink{Dst: peers[wanIndex], Src: macs[wanIndex]}}
}

func offer(t *testing.T, s *Service, list ...state.PassedFlow) {
	t.Helper()
	if err := s.Offer(t.Context(), list, 0); err != nil || s.Err() != nil {
		t.Fatal(err, s.Err())
	}
}

// sweepAll goes through all flows once.
func sweepAll(ctx context.Context, s *Service, now time.Duration) error {
	for more := true; more; {
		var err error
		if more, err = s.Sweep(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

func TestBothDirectionsAreOffloadedAndEnd(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	f.track(c)
	offer(t, s, f.passed(c, false), f.passed(c, true))
	there, ok := f.flows[state.FlowKey{Interface: lanIndex, Tuple: c.Orig}]
	if !ok || there.Becomes != c.Reply.Back() || f.hops[there.Hop].Device != wanIndex {
		t.Errorf("the original direction: %+v", f.flows)
	}
	back, ok := f.flows[state.FlowKey{Interface: wanIndex, Tuple: c.Reply}]
	if !ok || back.Becomes != c.Orig.Back() || f.hops[back.Hop].Link.Dst != peers[lanIndex] {
		t.Errorf("the reply direction: %+v", f.flows)
	}
	if len(f.kept) == 0 || !f.kept[0].Liberal {
		t.Error("the connection was not set liberal")
	}
	if err := s.Ended(c); err != nil || len(f.flows) != 0 {
		t.Errorf("%d flows are left (%v)", len(f.flows), err)
	}
}

// A port that is used again at once: the new connection has the addresses and ports of
// one whose end is not reported yet. It must be set liberal too, or connection tracking
// would reject packets of it that are in no window.
func TestAConnectionInThePlaceOfAnotherMayLeaveWindowsToo(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	f.track(c)
	offer(t, s, f.passed(c, false), f.passed(c, true))
	f.kept = nil
	c.ID++
	f.track(c)
	offer(t, s, f.passed(c, false))
	if got := f.connections[c.Orig]; !got.Liberal {
		t.Errorf("connection tracking got %+v", f.kept)
	}
	c.ID--
	if err := s.Ended(c); err != nil || len(f.flows) != 0 {
		t.Errorf("%d flows are left (%v)", len(f.flows), err)
	}
	c = f.connections[c.Orig]
	offer(t, s, f.passed(c, false), f.passed(c, true))
	if len(f.flows) != 2 {
		t.Errorf("%d flows", len(f.flows))
	}
}

func TestWhatIsNotOffloaded(t *testing.T) {
	change := func(do func(*state.Connection)) func(*Service, *fake, *state.PassedFlow, *state.Connection) {
		return func(_ *Service, _ *fake, _ *state.PassedFlow, c *state.Connection) { do(c) }
	}
	for _, tt := range []struct {
		why Why
		do  func(*Service, *fake, *state.PassedFlow, *state.Connection)
	}{
		{WhyStale, func(_ *Service, _ *fake, p *state.PassedFlow, _ *state.Connection) { p.Generation-- }},
		{WhyProtocol, func(_ *Service, _ *fake, p *state.PassedFlow, _ *state.Connection) {
			p.Tuple.Protocol = state.ProtocolICMP
		}},
		{WhyUnknown, func(s *Service, f *fake, p *state.PassedFlow, _ *state.Connection) {
			s.RulesetChanged()
			p.Generation = f.generation
		}},
		{WhyUntracked, change(func(c *state.Connection) { c.Status = 0 })},
		{WhyYoung, change(func(c *state.Connection) { c.Status &^= state.ConnectionSeenReply })},
		{WhyYoung, change(func(c *state.Connection) { c.TCP = 2 })},
		{WhyYoung, change(func(c *state.Connection) { c.Status |= state.ConnectionDying })},
		{"a helper", change(func(c *state.Connection) { c.Special = "a helper" })},
		{WhyOld, func(s *Service, _ *fake, _ *state.PassedFlow, c *state.Connection) { s.Old(c.ID) }},
		{WhyZones, func(s *Service, f *fake, _ *state.PassedFlow, c *state.Connection) {
			s.SetPolicy(Policy{Zones: []uint16{7}})
			f.zones[7] = map[state.FlowTuple]state.Connection{c.Reply: *c}
		}},
		{WhyOtherWay, func(_ *Service, _ *fake, p *state.PassedFlow, _ *state.Connection) { p.Link.Dst[5]++ }},
		{WhyOtherWay, func(_ *Service, _ *fake, p *state.PassedFlow, _ *state.Connection) { p.Device = lanIndex }},
		{WhyNeighbour, func(s *Service, f *fake, p *state.PassedFlow, _ *state.Connection) {
			s.NeighbourGone(state.KernelNeighbour{Device: wanIndex, Addr: gateway})
		}},
		{WhyNoLink, func(s *Service, f *fake, p *state.PassedFlow, _ *state.Connection) {
			s.Link(state.KernelLink{Index: wanIndex, MAC: macs[wanIndex], MTU: 1500, Ethernet: true})
			p.Generation = f.generation
		}},
		{WhyFull, func(_ *Service, f *fake, _ *state.PassedFlow, _ *state.Connection) { f.room = 0 }},
	} {
		s, f := newTest()
		c := masqueraded(1000)
		p := f.passed(c, false)
		tt.do(s, f, &p, &c)
		f.track(c)
		offer(t, s, p)
		if len(f.flows) != 0 || s.Status(0).Left[tt.why] != 1 {
			t.Errorf("%s: %d flows, left %v", tt.why, len(f.flows), s.Status(0).Left)
		}
	}
}

// A connection goes by a second uplink because of its mark (ip rule fwmark): so do
// its flows, once they were seen to. A mark that means something else does no harm.
func TestMarksChooseRoutes(t *testing.T) {
	const secondIndex = 4
	second := netip.MustParseAddr("192.0.2.9")
	for _, tt := range []struct {
		name  string
		mark  uint32
		leave uint32 // device
		want  bool
	}{
		{"by the second uplink", 2, secondIndex, true},
		{"by the first, whatever the mark", 7, wanIndex, true},
		{"by the first, though the mark says the second", 2, wanIndex, true},
		{"by the second, and nothing says why", 0, secondIndex, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, f := newTest()
			s.Link(state.KernelLink{Index: secondIndex, MAC: macs[wanIndex], MTU: 1500, Up: true, Ethernet: true})
			s.Neighbour(state.KernelNeighbour{Device: secondIndex, Addr: second, MAC: peers[wanIndex], State: state.NeighbourReachable})
			s.Rules([]state.KernelRule{{}})
			f.marked = map[uint32]state.FlowPath{2: {Device: secondIndex, Gateway: second, Unicast: true}}
			c := masqueraded(1000)
			c.Mark = tt.mark
			f.track(c)
			p := f.passed(c, false)
			p.Device = tt.leave
			offer(t, s, p)
			if got := len(f.flows) == 1; got != tt.want {
				t.Errorf("offloaded: %v; left %v", got, s.Status(0).Left)
			}
		})
	}
}

func TestAConnectionInAZoneIsFound(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	c.Zone = 7
	s.SetPolicy(Policy{Zones: []uint16{7}})
	f.zones[7] = map[state.FlowTuple]state.Connection{c.Reply: c}
	offer(t, s, f.passed(c, false))
	if len(f.flows) != 1 || f.kept[0].Zone != 7 {
		t.Errorf("%d flows, kept %+v", len(f.flows), f.kept)
	}
}

// A random history of flows and of changes of policy, against a model that
// knows which connections the ruleset lets through now. Packets of flows that
// are offloaded and current must be permitted; those that may be offloaded and
// keep coming must be, but for some.
func TestRandomHistory(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s, f := newTest()
	alive := map[uint16]state.Connection{}
	permitted := map[uint16]bool{}
	forwarded, may := 0, 0
	now := time.Duration(0)
	for range 1000000 {
		now += time.Millisecond
		port := uint16(1 + r.IntN(200))
		c, there := alive[port]
		switch event := r.IntN(100000); {
		case event == 0: // the ruleset changes
			for p := range permitted {
				permitted[p] = r.IntN(4) > 0
			}
			s.RulesetChanged()
			s.SetPolicy(Policy{})
		case event == 1:
			s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("192.0.2.0/24")}, state.RouteAdded)
		case event < 4:
			s.NeighbourGone(state.KernelNeighbour{Device: wanIndex, Addr: gateway})
			s.Neighbour(state.KernelNeighbour{Device: wanIndex, Addr: gateway, MAC: peers[wanIndex], State: state.NeighbourReachable})
		case event < 16:
			// a part of one: news come between
			if _, err := s.Sweep(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		case event < 300 && there: // conntrack -D
			delete(alive, port)
			f.forget(c)
			if err := s.Ended(c); err != nil {
				t.Fatal(err)
			}
		case event < 1000 && !there:
			c = masqueraded(port)
			alive[port], permitted[port] = c, r.IntN(8) > 0
			f.track(c)
		default: // a packet
			back := r.IntN(2) == 0
			key := state.FlowKey{Interface: lanIndex, Tuple: masqueraded(port).Orig}
			if back {
				key = state.FlowKey{Interface: wanIndex, Tuple: masqueraded(port).Reply}
			}
			flow, offloaded := f.flows[key]
			offloaded = offloaded && flow.Generation == f.generation && f.hops[flow.Hop].Device != 0
			passes := there && permitted[port]
			switch {
			case offloaded && !passes:
				t.Fatalf("a packet of %s is forwarded that the ruleset forbids", key.Tuple)
			case offloaded:
				forwarded++
				may++
			case passes: // through the stack, and seen to leave
				may++
				offer(t, s, f.passed(c, back))
			}
		}
	}
	if may < 1000 || float64(forwarded) < 0.95*float64(may) {
		t.Errorf("%d of %d packets that may be were offloaded", forwarded, may)
	}
	if got := len(f.flows); got > 400 {
		t.Errorf("%d flows of 200 connections", got)
	}
}
