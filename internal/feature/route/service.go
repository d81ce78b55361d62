package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"weft/fib"
	"weft/internal/state"
)

// Tables is where next hops are written: what the programs read.
type Tables interface {
	SetNexthop(number uint32, n state.Nexthop) error
	SetNeighbour(index uint32, e state.NeighbourEntry) error
	SetGroup(index uint32, members []uint32) error
	// Grace returns when no packet is under way any more that was when it was called.
	Grace() error
}

// Service mirrors the kernel's routes into tables of package fib, and what
// they lead to into next hops. It is fed what the kernel says, as values, and
// belongs to one goroutine. Whatever it cannot mirror it leaves to the kernel:
// an address then has the next hop "stack", never a wrong one.
type Service struct {
	out        Tables
	tables     []*table
	paths      *paths
	links      map[int]state.KernelLink
	neighbours map[hopKey]state.KernelNeighbour
	sorted     [2][]netip.Addr // the neighbours' addresses, by family
	onDevices  map[netip.Addr][]int
	bridged    map[bridgeKey]int
	objects    map[uint32]state.NexthopObject
	inGroups   map[uint32]map[uint32]bool // object -> groups that it is in
	hosts      map[hopKey]host            // neighbours with an entry of their own
	suspended  [2]string                  // why a family is left to the kernel; empty if it is not
	rules      [2]string                  // a rule that weft does not follow
	full       [2]string                  // a table without room
	retired    retired                    // what a grace period makes free
	resolve    []hopKey                   // neighbours that the kernel is to ask for
	asked      map[hopKey]bool            // those in resolve
	stale      bool                       // routes may have gone without news
	sync       *dump
	err        error  // the first that the datapath gave
	changes    uint64 // news of routes, since the start
	changes6   uint64 // those of IPv6
	sealed     uint64 // changes at the last Seal
	epoch      uint64 // of Seal
}

// table is one of the kernel's tables, in both families.
type table struct {
	kernel uint32 // its number there; the main one stands for the local one too
	rib    *rib
	fibs   [2]*fib.Table
	built  bool // the fibs are what the rib says
}

type bridgeKey struct {
	bridge int
	mac    [6]byte
}

// Numbers is the range of next hops, neighbours and group words that a service
// may use: a new one leaves those alone that the one before it used, until its
// tables have taken over.
type Numbers struct{ First, Last uint32 }

// TableSpec is a kernel table to mirror and the empty fib tables to fill.
type TableSpec struct {
	Kernel uint32 // state.TableMain or a VRF's
	IPv4   *fib.Table
	IPv6   *fib.Table
}

// New makes a service that knows nothing yet. The first of the tables is the
// main one. It waits for Begin, news of all there is, and End.
func New(out Tables, n Numbers, specs ...TableSpec) *Service {
	s := &Service{
		out: out, paths: newPaths(number(n.First), number(n.Last)),
		links: map[int]state.KernelLink{}, neighbours: map[hopKey]state.KernelNeighbour{}, onDevices: map[netip.Addr][]int{},
		bridged: map[bridgeKey]int{}, objects: map[uint32]state.NexthopObject{}, inGroups: map[uint32]map[uint32]bool{},
		hosts: map[hopKey]host{}, asked: map[hopKey]bool{},
	}
	for _, spec := range specs {
		s.tables = append(s.tables, &table{kernel: spec.Kernel, rib: newRib(), fibs: [2]*fib.Table{spec.IPv4, spec.IPv6}})
	}
	for f := range family(2) {
		for _, w := range []why{whyType, whySource, whyExpires, whyStrange, whyEncap, whyMixed, whyFull, whyUnsure} {
			s.hold(s.stack(f, w))
		}
		for _, k := range []pathKind{viaLocal, viaBlackhole, viaUnreachable} {
			s.hold(s.path(pathKey{family: f, kind: k}))
		}
	}
	return s
}

// check keeps the first error of the datapath: the runner ends with it.
func (s *Service) check(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err returns the first error that writing to the datapath had.
func (s *Service) Err() error { return s.err }

// tableOf returns the table that mirrors one of the kernel's, nil if none does.
func (s *Service) tableOf(kernel uint32) *table {
	if kernel == state.TableLocal {
		kernel = state.TableMain
	}
	for _, t := range s.tables {
		if t.kernel == kernel {
			return t
		}
	}
	return nil
}

// tableBehind returns the table that packets to a device's neighbours are looked
// up in: its VRF's, or the main one.
func (s *Service) tableBehind(device int) *table {
	master := s.links[s.links[device].Master]
	if master.Kind == "vrf" {
		return s.tableOf(master.VRFTable)
	}
	return s.tableOf(state.TableMain)
}

// Route handles the event of a route.
func (s *Service) Route(r *state.KernelRoute, change state.RouteChange) {
	t := s.tableOf(r.Table)
	if t == nil {
		return
	}
	s.changes++
	if r.Prefix.Addr().Is6() {
		s.changes6++
	}
	into := t.rib
	if s.sync != nil {
		into = s.sync.ribs[t]
	}
	c := candidate{metric: r.Metric, path: s.pathOf(r).number}
	if r.Table == state.TableLocal {
		c.path |= ofLocal
	}
	if r.TOS != 0 {
		c.path |= ofTOS
	}
	var room [1]candidate
	old := into.candidates(r.Prefix, &room)
	if s.sync != nil && len(old) == 0 && change != state.RouteDeleted {
		s.hold(s.paths.byNumber[c.number()])
		into.set(r.Prefix, append(room[:0], c)) // nearly all routes of a dump
		if c.local() && !r.Prefix.IsSingleIP() {
			noteBroad(into, r.Prefix, true)
		}
		return
	}
	now := s.changed(old, c, r, change)
	was := s.best(into, r.Prefix, old)
	for _, c := range now {
		s.hold(s.paths.byNumber[c.number()])
	}
	for _, c := range old {
		s.let(s.paths.byNumber[c.number()])
	}
	into.set(r.Prefix, now)
	broader := c.local() && !r.Prefix.IsSingleIP() && noteBroad(into, r.Prefix, slices.ContainsFunc(now, candidate.local))
	if s.sync == nil {
		if broader {
			s.lookUnder(t, r.Prefix)
		}
		s.update(t, r.Prefix, was, s.best(into, r.Prefix, now))
	}
}

// update brings the fib's entry for a prefix from one next hop to another,
// and the neighbours under the prefix to what that means for them.
func (s *Service) update(t *table, p netip.Prefix, was, now number) {
	if was == now {
		return
	}
	s.put(t, p, s.or(t, p, now))
	s.reconsiderAll(t, p)
}

// or returns the next hop of a prefix: that of its routes, or of the neighbour
// that it is the address of.
func (s *Service) or(t *table, p netip.Prefix, n number) number {
	if n != 0 || !p.IsSingleIP() {
		return n
	}
	for _, device := range s.onDevices[p.Addr()] {
		if h := s.hosts[hopKey{p.Addr(), device}]; h.table == t && h.path != nil {
			return h.path.number
		}
	}
	return 0
}

// put writes one entry of a fib. When there is no room even after a grace
// period, the family is left to the kernel.
func (s *Service) put(t *table, p netip.Prefix, n number) {
	f := familyOf(p.Addr())
	if s.full[f] != "" {
		return
	}
	err := putOnce(t.fibs[f], p, n)
	if errors.Is(err, fib.ErrFull) {
		s.check(s.Reclaim())
		err = putOnce(t.fibs[f], p, n)
	}
	if err != nil {
		s.full[f] = fmt.Sprintf("the %s table has no room: %v", f, err)
		s.judge()
	}
}

func putOnce(t *fib.Table, p netip.Prefix, n number) error {
	if n == 0 {
		_, err := t.Delete(p)
		return err
	}
	return t.Insert(p, uint32(n))
}

// Rules takes all of the kernel's rules.
func (s *Service) Rules(rules []state.KernelRule) {
	s.rules = [2]string{}
	var seen [2]struct{ local, main bool }
	for _, r := range rules {
		f := ipv4
		if r.IPv6 {
			f = ipv6
		}
		switch {
		case r.LocalOnly:
		case r.Plain && r.L3MDev:
		case r.Plain && r.Lookup && r.Table == state.TableLocal && !seen[f].main:
			seen[f].local = true
		case r.Plain && r.Lookup && r.Table == state.TableMain && seen[f].local:
			seen[f].main = true
		case seen[f].main:
			// asked only for what the main table has no route for, as the kernel is then
		case s.rules[f] == "":
			s.rules[f] = fmt.Sprintf("weft does not follow the rule %q", r.Text)
		}
	}
	for f := range family(2) {
		if s.rules[f] == "" && !seen[f].main {
			s.rules[f] = "the rules do not lead to the tables local and main"
		}
	}
	s.judge()
}

// judge decides for each family whether weft's table may be asked.
func (s *Service) judge() {
	for f := range family(2) {
		why := s.full[f]
		if why == "" {
			why = s.rules[f]
		}
		changed := (why == "") != (s.suspended[f] == "")
		s.suspended[f] = why
		if !changed {
			continue
		}
		for _, p := range s.paths.byNumber {
			if p.key.family == f {
				s.write(p)
			}
		}
	}
}

// RoutesMayBeGone notes that only a dump tells what routes there are.
func (s *Service) RoutesMayBeGone() { s.stale = true }

// NoRoom reports whether a table has no room. It stays so for this service: what the table
// holds is not what the routes are any more. A new one starts with empty tables.
func (s *Service) NoRoom() bool { return s.full != [2]string{} }

// Changes6 counts news of IPv6 routes.
func (s *Service) Changes6() uint64 { return s.changes6 }

// Stale reports whether a dump is due, after Link, RoutesMayBeGone, or news that
// could not be followed.
func (s *Service) Stale() bool { return s.stale }
