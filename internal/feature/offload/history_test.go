package offload

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/state"
)

// household is a model of a router between a member and the Internet: the connections,
// and the packets that the kernel would accept for each of them now. A quarter is UDP, a
// fifth was begun from outside to a forwarded port, and some have a twin in another zone
// of connection tracking. A port may be used again before the end of its previous
// connection is reported.
type household struct {
	t *testing.T
	r *rand.Rand
	s *Service
	f *fake

	conns      map[uint16]*historyConn
	policy     Policy
	config     Config
	neighbour  bool // the gateway is known
	up         bool // so is the way there
	now        time.Duration
	settles    int // packets until the ruleset is known again
	unreported []unreportedEnd

	forwarded, may, packets int
	events                  map[string]int
}

type historyConn struct {
	c                 state.Connection
	inbound           bool // begun from outside
	permitted, closed bool
	twin              bool
	unseen            bool // by connection tracking: some of its packets
}

// unreportedEnd is the end of a connection that is reported some packets later.
type unreportedEnd struct {
	c  state.Connection
	at int // packets
}

const historyPorts = 200

func newHousehold(t *testing.T, seed uint64) *household {
	s, f := newTest()
	h := &household{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), s: s, f: f, conns: map[uint16]*historyConn{}, neighbour: true, up: true, events: map[string]int{},
		config: Config{Protocols: []Protocol{TCP, UDP}, MinimumPackets: 2, IdleTimeout: time.Minute},
	}
	f.zones[7] = map[state.FlowTuple]state.Connection{}
	h.policy.Zones = []uint16{7}
	s.SetPolicy(h.policy)
	return h
}

func historyOf(port uint16) (c state.Connection, inbound bool) {
	c = masqueraded(port)
	if inbound = port%5 == 0; inbound {
		leaves := state.FlowTuple{Src: c.Orig.Dst, Dst: c.Orig.Src, SrcPort: 40000 + port, DstPort: 80, Protocol: state.ProtocolTCP}
		c.Orig, c.Reply = leaves, leaves.Back()
		c.Orig.Dst, c.Orig.DstPort = netip.MustParseAddr("198.51.100.1").As16(), 8000+port
	}
	if port%4 == 0 {
		c.Orig.Protocol, c.Reply.Protocol, c.TCP = state.ProtocolUDP, state.ProtocolUDP, 0
	}
	return c, inbound
}

// passed is a packet of a direction as the stack sent it on.
func (h *household) passed(c state.Connection, back, toInternet bool) state.PassedFlow {
	p := state.PassedFlow{
		Interface: wanIndex, Tuple: c.Reply.Back(), Device: lanIndex, Generation: h.f.generation,
		Link: state.FlowLink{Dst: peers[lanIndex], Src: macs[lanIndex]},
	}
	if back {
		p.Tuple = c.Orig.Back()
	}
	if toInternet {
		p.Interface, p.Device, p.Link = lanIndex, wanIndex, state.FlowLink{Dst: peers[wanIndex], Src: macs[wanIndex]}
	}
	return p
}

func (h *household) check(err error) {
	h.t.Helper()
	if err != nil || h.s.Err() != nil {
		h.t.Fatal(err, h.s.Err())
	}
}

// tell tells of ends that are due, and all of a connection's.
func (h *household) notify(orig state.FlowTuple) {
	h.unreported = slices.DeleteFunc(h.unreported, func(e unreportedEnd) bool {
		due := e.at <= h.packets || e.c.Orig == orig
		if due {
			h.check(h.s.Ended(e.c))
		}
		return due
	})
}

// close has the programs see a packet that ends or begins a connection.
func (h *household) close(c *historyConn) {
	for _, k := range []state.FlowKey{{Interface: lanIndex, Tuple: c.c.Orig}, {Interface: wanIndex, Tuple: c.c.Orig}, {Interface: lanIndex, Tuple: c.c.Reply}, {Interface: wanIndex, Tuple: c.c.Reply}} {
		h.f.closed[k] = true
	}
}

// again uses the port of a connection that has ended for another one.
func (h *household) again(port uint16, old *historyConn) {
	h.close(old)
	h.unreported = append(h.unreported, unreportedEnd{old.c, h.packets + h.r.IntN(2000)})
	c := &historyConn{inbound: old.inbound, permitted: h.r.IntN(8) > 0}
	c.c, _ = historyOf(port)
	c.c.ID = old.c.ID + historyPorts
	h.conns[port] = c
	h.f.track(c.c)
}

// gone ends a connection in connection tracking.
func (h *household) gone(port uint16, c *historyConn) {
	h.notify(c.c.Orig)
	delete(h.conns, port)
	h.f.forget(c.c)
	for _, t := range []state.FlowTuple{c.c.Orig, c.c.Reply} {
		delete(h.f.zones[7], t)
	}
	h.check(h.s.Ended(c.c))
	for _, k := range []state.FlowKey{{Interface: lanIndex, Tuple: c.c.Orig}, {Interface: wanIndex, Tuple: c.c.Orig}, {Interface: lanIndex, Tuple: c.c.Reply}, {Interface: wanIndex, Tuple: c.c.Reply}} {
		delete(h.f.closed, k)
	}
}

// ruleset has another one in force. It is read some packets later.
func (h *household) ruleset() {
	for _, port := range slices.Sorted(maps.Keys(h.conns)) { // in order: the seed decides
		h.conns[port].permitted = h.r.IntN(5) > 0
	}
	h.policy.Blocks = nil
	if h.r.IntN(3) == 0 {
		h.policy.Blocks = []Block{{Rule: "rule 4 of chain inet home forward", Why: "a limit", IPv4: true, Protocol: state.ProtocolUDP}}
	}
	h.s.RulesetChanged()
	h.settles = 1 + h.r.IntN(40)
}

// event is something that happens, or nothing. Of 100000, five concern all flows.
func (h *household) event() string {
	port := uint16(1 + h.r.IntN(historyPorts))
	c, there := h.conns[port], h.conns[port] != nil
	switch n := h.r.IntN(200000); {
	case n < 2:
		h.ruleset()
		return "another ruleset"
	case n < 3:
		h.s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix("203.0.113.0/24")}, state.RouteAdded)
		return "a route"
	case n < 4:
		h.s.AllMayHaveEnded()
		return "lost news of ends"
	case n < 5:
		h.config.Protocols = [][]Protocol{{TCP}, {TCP, UDP}, {TCP, UDP, ICMP}}[h.r.IntN(3)]
		h.s.Set(h.config)
		return "a reload"
	case n < 25:
		h.neighbour = !h.neighbour && h.up
		if h.neighbour {
			h.s.Neighbour(state.KernelNeighbour{Device: wanIndex, Addr: gateway, MAC: peers[wanIndex], State: state.NeighbourReachable})
			return "a neighbour that is back"
		}
		h.s.NeighbourGone(state.KernelNeighbour{Device: wanIndex, Addr: gateway})
		return "a neighbour that is lost"
	case n < 27 || !h.up && n < 400:
		h.up = !h.up
		h.s.Link(state.KernelLink{Index: wanIndex, MAC: macs[wanIndex], MTU: 1500, Up: h.up, Ethernet: true})
		return "a link that goes down, or comes up"
	case !h.neighbour && n < 400:
		h.neighbour = true
		h.s.Neighbour(state.KernelNeighbour{Device: wanIndex, Addr: gateway, MAC: peers[wanIndex], State: state.NeighbourReachable})
		return "a neighbour that is back"
	case n < 45:
		h.f.room = []int{1 << 20, 1 << 20, 250}[h.r.IntN(3)]
		return "another size of the table"
	case n < 145:
		_, err := h.s.Sweep(h.t.Context(), h.now) // a part of one: news come between
		h.check(err)
		return "a sweep"
	case n < 500 && there:
		h.gone(port, c)
		return "conntrack -D"
	case n < 700 && there && !c.closed && c.c.Orig.Protocol == state.ProtocolTCP: // a FIN: the program closes both directions
		c.closed = true
		c.c = h.f.connections[c.c.Orig]
		c.c.TCP = state.TCPEstablished + 1
		h.f.track(c.c)
		h.close(c)
		return "a FIN"
	case n < 2000 && there && c.closed && !c.twin:
		h.again(port, c)
		return "a port that is used again"
	case n < 4000 && there && c.closed:
		h.gone(port, c)
		return "an end"
	case n < 4000 && !there:
		c := &historyConn{permitted: h.r.IntN(8) > 0, twin: h.r.IntN(10) == 0}
		c.c, c.inbound = historyOf(port)
		h.conns[port] = c
		h.f.track(c.c)
		if c.twin {
			h.f.zones[7][c.c.Orig], h.f.zones[7][c.c.Reply] = c.c, c.c
		}
		return "a new connection"
	}
	return ""
}

// packet is one of some connection that may be there, either way.
func (h *household) packet() {
	port, back := uint16(1+h.r.IntN(historyPorts)), h.r.IntN(2) == 0
	tuple, inbound := historyOf(port)
	arrives, toInternet := tuple.Orig, !inbound != back
	if back {
		arrives = tuple.Reply
	}
	in := uint32(wanIndex)
	if toInternet {
		in = lanIndex
	}
	if !toInternet && !h.up {
		return // nothing arrives by a link that is down
	}
	c := h.conns[port]
	key := state.FlowKey{Interface: in, Tuple: arrives}
	flow, offloaded := h.f.flows[key]
	offloaded = offloaded && flow.Generation == h.f.generation && h.f.hops[flow.Hop].Device != 0 && !h.f.closed[key] && !h.f.pending[key]
	passes := c != nil && c.permitted && h.up && (h.neighbour || !toInternet)
	udp := arrives.Protocol == state.ProtocolUDP
	may := passes && !c.twin && !c.closed && h.settles == 0 && h.config.Takes(arrives.Protocol) && (!udp || len(h.policy.Blocks) == 0)
	h.packets++
	switch {
	case offloaded && !passes:
		h.t.Fatalf("packet %d: one of %s is forwarded that the ruleset forbids, or that has no way out (%+v)", h.packets, arrives, c)
	case offloaded && !may:
		h.t.Fatalf("packet %d: one of %s is forwarded that must not go past the stack (%+v)", h.packets, arrives, c)
	case offloaded:
		if want := h.passed(c.c, back, toInternet); flow.Becomes != want.Tuple || h.f.hops[flow.Hop].Device != want.Device {
			h.t.Fatalf("packet %d: %s becomes %s by %d, and %s by %d in the kernel", h.packets, arrives, flow.Becomes, h.f.hops[flow.Hop].Device, want.Tuple, want.Device)
		}
		h.forwarded++
		h.may++
		c.unseen = true
	case passes && c.unseen && !udp && !h.f.connections[c.c.Orig].Liberal:
		h.t.Fatalf("packet %d: one of %s is in no window that connection tracking knows, and lost", h.packets, arrives)
	case passes: // through the stack, and seen to leave
		if may && (len(h.f.flows) < h.f.room) {
			h.may++
		}
		h.f.beforePut, h.f.beforeOpen = nil, nil
		if !udp && !c.twin && h.r.IntN(50) == 0 {
			h.f.beforePut = func() {
				h.again(port, c)
				h.conns[port].permitted = c.permitted // the flow has passed
				h.events["a port that is used again meanwhile"]++
			}
		} else if !udp && !c.twin && h.r.IntN(50) == 0 {
			h.f.beforeOpen = func() {
				h.again(port, c)
				h.conns[port].permitted = c.permitted // the flow has passed
				h.events["a port that is used again before its flow is"]++
			}
		}
		h.check(h.s.Offer(h.t.Context(), []state.PassedFlow{h.passed(c.c, back, toInternet)}, h.now))
	}
	if h.settles > 0 {
		if h.settles--; h.settles == 0 {
			h.s.SetPolicy(h.policy)
		}
	}
}

// live lets a number of milliseconds pass, in each of which a packet comes.
func (h *household) live(milliseconds int) {
	for range milliseconds {
		h.now += time.Millisecond
		h.notify(state.FlowTuple{})
		if what := h.event(); what != "" {
			h.events[what]++
		}
		h.packet()
	}
}

// A random history of flows, zones, forwarded ports, deletions, full tables, rules
// that look at each packet, reloads, and neighbours and links that come and go.
// What the kernel would not let through is never forwarded past it, what it would
// is never lost (it is the stack's), and of what may be offloaded at least 95 in
// 100 packets are.
func TestHarshHistory(t *testing.T) {
	happened := map[string]int{}
	for seed := range uint64(5) {
		h := newHousehold(t, seed)
		h.live(500000)
		if h.may < 100000 || float64(h.forwarded) < 0.95*float64(h.may) {
			t.Errorf("history %d: %d of %d packets that may be were offloaded", seed, h.forwarded, h.may)
		}
		if len(h.f.strict) > 0 {
			t.Errorf("history %d: %d flows were used before connection tracking was liberal about their packets, first %v", seed, len(h.f.strict), h.f.strict[0])
		}
		if got := len(h.f.flows); got > 2*historyPorts {
			t.Errorf("history %d: %d flows of %d connections", seed, got, historyPorts)
		}
		t.Logf("history %d: %d of %d packets past the stack; %v", seed, h.forwarded, h.may, h.events)
		for what, n := range h.events {
			happened[what] += n
		}
	}
	// the rarest is expected twelve times in all histories together
	for _, what := range []string{
		"another ruleset", "a route", "lost news of ends", "a reload", "a neighbour that is lost", "a neighbour that is back",
		"a link that goes down, or comes up", "another size of the table", "a sweep", "conntrack -D", "a FIN", "a port that is used again",
		"a port that is used again meanwhile", "a port that is used again before its flow is", "an end", "a new connection",
	} {
		if happened[what] == 0 {
			t.Errorf("in no history: %s", what)
		}
	}
}

// A failure can be looked into only if the seed gives the same history again.
func TestAHistoryRepeatsFromItsSeed(t *testing.T) {
	first, second := newHousehold(t, 3), newHousehold(t, 3)
	for i := range 100 {
		first.live(2000)
		second.live(2000)
		if first.forwarded != second.forwarded || first.may != second.may || !maps.Equal(first.events, second.events) || !maps.Equal(first.f.flows, second.f.flows) {
			t.Fatalf("after %d packets: %d and %d of %d and %d forwarded, %v and %v", 2000*(i+1),
				first.forwarded, second.forwarded, first.may, second.may, first.events, second.events)
		}
	}
}
