package offload

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"weft/internal/state"
)

// Tables are the flow tables that the programs read.
type Tables interface {
	// PutFlows gives how many were written before an error. They are pending.
	PutFlows([]state.Flow) (int, error)
	// OpenFlows lets pending flows be used, but for those whose connection has ended
	// since they were written, or in whose place another has begun.
	OpenFlows([]state.FlowKey)
	DeleteFlows([]state.FlowKey) error
	// Forget resets the packet counters of flows; Interface and addresses as they leave.
	Forget([]state.FlowKey) error
	// Some visits some thousand flows per call, and gives those that useful rejects to
	// use. more is false when it has visited every flow that was there all the time; the
	// next call starts again.
	Some(useful func(state.FlowState) bool, use func(state.FlowUse)) (more bool, err error)
	// Look gives the state of each listed flow that exists; i is its index in the list.
	Look(list []state.FlowKey, use func(i int, f state.FlowState)) error
}

// Ways are the next-hop entries and the generation numbers that flows depend on.
type Paths interface {
	SetHop(number uint32, h state.FlowHop) error
	SetSession(s state.FlowSession, upper uint32) error
	Generation() uint32
	// Bump makes all flows the stack's, at once.
	Bump()
}

// Kernel is the kernel, as far as the service uses it.
type Kernel interface {
	// Connections gives the connection of each tuple, not confirmed if there is none.
	Connections(ctx context.Context, tuples []state.FlowTuple, zone uint16) ([]state.Connection, error)
	Paths(ctx context.Context, asked []state.FlowAsk) ([]state.FlowPath, error)
	// Keep gives the places in the list of those that are no more.
	Keep(ctx context.Context, list []state.KeptConnection) ([]int, error)
}

// Service decides which flows are offloaded, and takes them back. It handles events of
// the programs and the kernel. Only one goroutine may use it.
type Service struct {
	config Config
	tables Tables
	ways   Paths
	kernel Kernel
	full   error // which error of Tables says that there is no room
	policy Policy

	udpStream   time.Duration
	connections connections
	sweep       sweep
	old         map[uint32]bool // ids of connections that end without a word
	hops        *hops
	routes      askedRoutes
	plainRules  bool // routes do not depend on where packets come from
	rules       []state.KernelRule
	links       map[int]state.KernelLink
	wereUp      map[int]bool // links that were, some time
	objects     map[uint32]state.NexthopObject
	arrivals    map[uint32]int // how many directions of connections come by an interface
	neighbours  map[neighbour]state.KernelNeighbour
	resolve     []state.KernelNeighbour
	counts      map[Why]uint64
	recent      leftFlows
	now         time.Duration // of the last look at flows
	taken       uint64
	refused     refused
	routeEvents uint64 // of routes, and
	routeHits   uint64 // those that were of some flow's
	dump        bool   // news are of what is there already
	err         error
}

type neighbour struct {
	device int
	addr   netip.Addr
}

// Why is a reason for which a flow stays with the stack.
type Why string

const (
	WhyProtocol  Why = "a protocol that is not offloaded"
	WhyStale     Why = "rules or routes changed meanwhile"
	WhyUntracked Why = "connection tracking does not know it"
	WhyYoung     Why = "not established yet"
	WhyEnding    Why = "it has begun to end"
	WhyZones     Why = "several zones of connection tracking know it"
	WhyOld       Why = "older than weft's start, and would end without a word"
	WhyRoute     Why = "the route is not one to a single neighbour"
	WhyOtherWay  Why = "its frames leave otherwise than the routes say"
	WhyNeighbour Why = "the neighbour is not known"
	WhyFull      Why = "the table is full"
	WhyHops      Why = "too many ways out"
	WhyNoLink    Why = "the device is not known or down"
	WhyCollision Why = "another connection has the same addresses and ports"
)

// New returns an empty service. full is the error of PutFlows when a table is full.
func New(tables Tables, ways Paths, kernel Kernel, full error) *Service {
	ways.Bump() // invalidates the flows of an earlier process
	return &Service{
		tables: tables, ways: ways, kernel: kernel, full: full,
		connections: connections{at: map[state.FlowTuple]int{}}, old: map[uint32]bool{}, hops: newHops(),
		links: map[int]state.KernelLink{}, wereUp: map[int]bool{}, objects: map[uint32]state.NexthopObject{}, neighbours: map[neighbour]state.KernelNeighbour{},
		arrivals: map[uint32]int{}, counts: map[Why]uint64{}, recent: leftFlows{at: map[state.FlowTuple]leftFlow{}},
	}
}

// bump makes all flows the stack's, those that pass and those that are refused.
func (s *Service) bump() {
	s.ways.Bump()
	s.refused.void()
}

// Set changes the configuration.
func (s *Service) Set(c Config) {
	s.config = c
	s.bump()
}

// UDPStream sets connection tracking's timeout of UDP streams.
func (s *Service) UDPStream(d time.Duration) { s.udpStream = d }

// Old records a connection that is older than weft's subscription to events: the kernel
// does not report its end.
func (s *Service) Old(id uint32) { s.old[id] = true }

// Ended handles the event that connections have ended.
func (s *Service) Ended(list ...state.Connection) error {
	var b back
	for _, c := range list {
		delete(s.old, c.ID)
		s.recent.ended(c)
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
		s.letGo(c, d)
	}
	s.connections.remove(c.orig)
}

// letGo counts down what a direction of a connection makes use of.
func (s *Service) letGo(c connection, d int) {
	s.hops.release(c.hop[d])
	if s.arrivals[c.in[d]]--; s.arrivals[c.in[d]] == 0 {
		delete(s.arrivals, c.in[d])
	}
}

// give gives both directions of connections back to the stack.
func (s *Service) give(b back) error {
	if len(b.gone) == 0 {
		return nil
	}
	return errors.Join(s.tables.DeleteFlows(b.gone), s.tables.Forget(b.forget))
}

// AllMayHaveEnded handles the event that unknown connections have ended: all flows return
// to the stack and are learnt again.
func (s *Service) AllMayHaveEnded() { s.bump() }

// RulesetChanged handles the event that the ruleset has changed: no flow is offloaded
// until SetPolicy.
func (s *Service) RulesetChanged() {
	s.bump()
	s.policy = Policy{Unknown: true}
	s.refused.known = false
}

// SetPolicy sets the part of the ruleset that flows must not bypass.
func (s *Service) SetPolicy(p Policy) { s.policy = p }
