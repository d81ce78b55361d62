package offload

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"weft/internal/state"
)

// Tables is where flows are written: what the programs read.
type Tables interface {
	// PutFlows gives how many were written before an error.
	PutFlows([]state.Flow) (int, error)
	DeleteFlows([]state.FlowKey) error
	// Forget has packets of flows counted anew; Interface and addresses as they leave.
	Forget([]state.FlowKey) error
	// Some gives flows, some thousands at a call; more is false once it has given
	// each that was there all the time, and then it begins anew.
	Some(func(state.FlowUse)) (more bool, err error)
}

// Ways is where it is written what all flows, or many, depend on.
type Ways interface {
	SetHop(number uint32, h state.FlowHop) error
	SetSession(s state.FlowSession, upper uint32) error
	Generation() uint32
	// Bump makes all flows the stack's, at once.
	Bump()
}

// Kernel is what the service asks the kernel for.
type Kernel interface {
	// Connections gives the connection of each tuple, not confirmed if there is none.
	Connections(ctx context.Context, tuples []state.FlowTuple, zone uint16) ([]state.Connection, error)
	Ways(ctx context.Context, asked []state.FlowAsk) ([]state.FlowWay, error)
	// Keep gives the places in the list of those that are no more.
	Keep(ctx context.Context, list []state.KeptConnection) ([]int, error)
}

// Service decides which flows are offloaded, and takes them back. It is fed
// what the programs and the kernel say, and belongs to one goroutine.
type Service struct {
	config Config
	tables Tables
	ways   Ways
	kernel Kernel
	full   error // which error of Tables says that there is no room
	policy Policy

	connections connections
	sweep       sweep
	old         map[uint32]bool // ids of connections that end without a word
	hops        *hops
	routes      map[state.FlowAsk]state.FlowWay
	plainRules  bool // routes do not depend on where packets come from
	links       map[int]state.KernelLink
	neighbours  map[neighbour]state.KernelNeighbour
	resolve     []state.KernelNeighbour
	counts      map[Why]uint64
	recent      map[state.FlowKey]Why // flows as they leave that stayed with the stack, some
	taken       uint64
	listing     bool // news are of what is there already
	err         error
}

type neighbour struct {
	device int
	addr   netip.Addr
}

// Why says why a flow is left to the stack.
type Why string

const (
	WhyProtocol  Why = "a protocol that is not offloaded"
	WhyStale     Why = "rules or routes changed meanwhile"
	WhyUntracked Why = "connection tracking does not know it"
	WhyYoung     Why = "not established yet"
	WhyZones     Why = "several zones of connection tracking know it"
	WhyOld       Why = "older than weft's start, and would end without a word"
	WhyRoute     Why = "the route is not one to a single neighbour"
	WhyOtherWay  Why = "its frames leave otherwise than the routes say"
	WhyNeighbour Why = "the neighbour is not known"
	WhyLocal     Why = "it is the router's own"
	WhyFull      Why = "the table is full"
	WhyHops      Why = "too many ways out"
	WhyNoLink    Why = "the device is not known or down"
	WhyCollision Why = "another connection has the same addresses and ports"
)

// New makes a service that knows nothing yet. full is the error of PutFlows
// that says that there is no room.
func New(tables Tables, ways Ways, kernel Kernel, full error) *Service {
	ways.Bump() // whatever flows there are, nobody watches over them
	return &Service{
		tables: tables, ways: ways, kernel: kernel, full: full,
		connections: connections{at: map[state.FlowTuple]int{}}, old: map[uint32]bool{}, hops: newHops(),
		routes: map[state.FlowAsk]state.FlowWay{}, links: map[int]state.KernelLink{}, neighbours: map[neighbour]state.KernelNeighbour{},
		counts: map[Why]uint64{}, recent: map[state.FlowKey]Why{},
	}
}

// Set takes another configuration.
func (s *Service) Set(c Config) {
	s.config = c
	s.ways.Bump()
}

// Old notes a connection that was there before weft listened: the kernel does
// not tell when it ends.
func (s *Service) Old(id uint32) { s.old[id] = true }

// candidate is a flow on its way to be offloaded.
type candidate struct {
	passed  state.PassedFlow
	c       state.Connection
	back    bool // it is the reply direction
	arrives state.FlowTuple
	way     state.FlowWay
}

// Offer takes flows whose packets have passed, and offloads what may be. now is
// a clock that only goes forward.
func (s *Service) Offer(ctx context.Context, passed []state.PassedFlow, now time.Duration) error {
	generation := s.ways.Generation()
	var list []candidate
	for _, p := range passed {
		if why := s.refuse(p, generation); why != "" {
			s.left(p, why)
			continue
		}
		list = append(list, candidate{passed: p})
	}
	list, err := s.connect(ctx, list)
	if err != nil {
		return err
	}
	if list, err = s.route(ctx, list); err != nil {
		return err
	}
	return s.put(ctx, list, now)
}

func (s *Service) refuse(p state.PassedFlow, generation uint32) Why {
	switch {
	case p.Generation != generation:
		return WhyStale
	case !s.config.Takes(p.Tuple.Protocol):
		return WhyProtocol
	}
	return s.policy.refuses(p.Tuple)
}

// connect finds the connections of candidates, and leaves out those that are
// not ready.
func (s *Service) connect(ctx context.Context, list []candidate) ([]candidate, error) {
	tuples := make([]state.FlowTuple, len(list))
	for i, c := range list {
		tuples[i] = c.passed.Tuple.Back() // what the answer to it will be, is in tracking
	}
	found := make([]state.Connection, len(list))
	several := make([]bool, len(list))
	for _, zone := range append([]uint16{0}, s.policy.Zones...) {
		in, err := s.kernel.Connections(ctx, tuples, zone)
		if err != nil {
			return nil, err
		}
		for i, c := range in {
			if c.Status&state.ConnectionConfirmed != 0 {
				several[i] = several[i] || found[i].Status != 0
				found[i] = c
			}
		}
	}
	kept := list[:0]
	for i, c := range list {
		why := s.ready(found[i], several[i])
		if why == "" {
			c.c = found[i]
			c.back = c.c.Orig == tuples[i]
			c.arrives = c.c.Orig
			if c.back {
				c.arrives = c.c.Reply
			}
			why = s.collides(c)
		}
		if why != "" {
			s.left(c.passed, why)
			continue
		}
		kept = append(kept, c)
	}
	return kept, nil
}

func (s *Service) ready(c state.Connection, several bool) Why {
	assured := c.Status&state.ConnectionAssured != 0
	switch {
	case c.Status&state.ConnectionConfirmed == 0:
		return WhyUntracked
	case several:
		return WhyZones
	case s.old[c.ID]:
		return WhyOld
	case c.Special != "":
		return Why(c.Special)
	case c.Status&state.ConnectionDying != 0, c.Status&state.ConnectionSeenReply == 0:
		return WhyYoung
	case c.Orig.Protocol == state.ProtocolTCP && (c.TCP != state.TCPEstablished || !assured):
		return WhyYoung
	}
	return ""
}

// collides tells whether the place is taken by a connection of another zone.
func (s *Service) collides(c candidate) Why {
	if old := s.connections.get(c.c.Orig); old != nil && (old.zone != c.c.Zone || old.reply != c.c.Reply) {
		return WhyCollision
	}
	return ""
}

// route finds where the kernel sends the packets, which must be where they
// were seen to go.
func (s *Service) route(ctx context.Context, list []candidate) ([]candidate, error) {
	var keys, ask []state.FlowAsk
	asked := map[state.FlowAsk]bool{}
	for _, c := range list {
		k, a := s.askOf(c)
		if _, known := s.routes[k]; !known && !asked[k] {
			asked[k] = true
			keys, ask = append(keys, k), append(ask, a)
		}
	}
	ways, err := s.kernel.Ways(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(s.routes)+len(keys) > routesMax {
		clear(s.routes)
	}
	kept := list[:0]
	for i, k := range keys {
		s.routes[k] = ways[i]
	}
	for _, c := range list {
		k, _ := s.askOf(c)
		way, known := s.routes[k]
		if !known || !way.Unicast {
			s.left(c.passed, WhyRoute)
			continue
		}
		c.way = way
		kept = append(kept, c)
	}
	return kept, nil
}

// routesMax bounds what is remembered of routes.
const routesMax = 1 << 17

// askOf gives what the stack routed by: NAT had given the packet its new
// destination, and not yet its new source. key is what other packets share.
func (s *Service) askOf(c candidate) (key, ask state.FlowAsk) {
	ask = state.FlowAsk{Interface: int(c.passed.Interface), To: c.passed.Tuple.To(), From: c.arrives.From()}
	key = ask
	if s.plainRules {
		key.From = netip.Addr{}
	}
	return key, ask
}

// put writes the flows of candidates.
func (s *Service) put(ctx context.Context, list []candidate, now time.Duration) error {
	var flows []state.Flow
	var of []candidate
	for _, c := range list {
		hop, why, err := s.hop(c)
		if err != nil {
			return err
		}
		if why != "" {
			s.left(c.passed, why)
			continue
		}
		flows = append(flows, state.Flow{
			FlowKey: state.FlowKey{Interface: c.passed.Interface, Tuple: c.arrives},
			Becomes: c.passed.Tuple, Hop: hop, Generation: c.passed.Generation,
		})
		of = append(of, c)
	}
	if err := s.keepNew(ctx, of, now); err != nil {
		return err
	}
	done, err := s.tables.PutFlows(flows)
	for i, f := range flows[:done] {
		s.note(of[i], f, now)
	}
	s.taken += uint64(done)
	if err != nil && errors.Is(err, s.full) {
		for _, c := range of[done:] {
			s.left(c.passed, WhyFull)
		}
		return nil
	}
	return err
}

// keepNew tells connection tracking that it will not see all packets of TCP
// from now on: what comes back to it later is in no window that it knows.
func (s *Service) keepNew(ctx context.Context, list []candidate, now time.Duration) error {
	var keep []state.KeptConnection
	for _, c := range list {
		if c.c.Orig.Protocol == state.ProtocolTCP && s.connections.get(c.c.Orig) == nil {
			keep = append(keep, state.KeptConnection{Orig: c.c.Orig, Zone: c.c.Zone, Timeout: c.c.Timeout, Liberal: true})
		}
	}
	if len(keep) == 0 {
		return nil
	}
	_, err := s.kernel.Keep(ctx, keep)
	return err
}

func (s *Service) note(c candidate, f state.Flow, now time.Duration) {
	known := s.connections.get(c.c.Orig)
	if known == nil {
		known = s.connections.add(connection{orig: c.c.Orig, reply: c.c.Reply, zone: c.c.Zone, kept: now})
	}
	known.timeout = max(known.timeout, c.c.Timeout)
	known.round = s.sweep.round // of use, whether the sweep has passed its place or not
	d := 0
	if c.back {
		d = 1
	}
	if known.in[d] != 0 {
		s.hops.release(known.hop[d])
	}
	known.in[d], known.hop[d] = f.Interface, f.Hop
	s.hops.hold(f.Hop)
}

// Ended takes the news that connections are no more.
func (s *Service) Ended(list ...state.Connection) error {
	var b back
	for _, c := range list {
		delete(s.old, c.ID)
		if known := s.connections.get(c.Orig); known != nil && known.zone == c.Zone {
			s.remove(*known, &b)
		}
	}
	return s.give(b)
}

// back is what goes back to the stack: flows as they arrive, and as they leave.
type back struct{ gone, forget []state.FlowKey }

// remove takes a connection out of the list; give has the stack take its flows.
func (s *Service) remove(c connection, b *back) {
	for d, in := range c.in {
		if in == 0 {
			continue
		}
		arrives, leaves := c.orig, c.reply.Back()
		if d == 1 {
			arrives, leaves = c.reply, c.orig.Back()
		}
		b.gone = append(b.gone, state.FlowKey{Interface: in, Tuple: arrives})
		b.forget = append(b.forget, state.FlowKey{Interface: in, Tuple: leaves})
		s.hops.release(c.hop[d])
	}
	s.connections.remove(c.orig)
}

// give gives both directions of connections back to the stack.
func (s *Service) give(b back) error {
	if len(b.gone) == 0 {
		return nil
	}
	return errors.Join(s.tables.DeleteFlows(b.gone), s.tables.Forget(b.forget))
}

// AllMayHaveEnded takes the news that connections ended and nobody knows
// which: all flows are learnt anew.
func (s *Service) AllMayHaveEnded() { s.ways.Bump() }

// RulesetChanged takes the news that the ruleset changed: until its policy is
// known, nothing is offloaded.
func (s *Service) RulesetChanged() {
	s.ways.Bump()
	s.policy = Policy{Unknown: true}
}

// SetPolicy says what of the ruleset flows must not go past.
func (s *Service) SetPolicy(p Policy) { s.policy = p }
