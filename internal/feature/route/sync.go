package route

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"weft/fib"
	"weft/internal/state"
)

// dump is the content of a dump so far.
type dump struct {
	ribs       map[*table]*rib
	links      map[int]bool
	neighbours map[hopKey]bool
	bridged    map[bridgeKey]bool
	objects    map[uint32]bool
}

// Begin says that what follows, until End or Abandon, is all there is.
func (s *Service) Begin() {
	s.sync = &dump{
		ribs: map[*table]*rib{}, links: map[int]bool{},
		neighbours: map[hopKey]bool{}, bridged: map[bridgeKey]bool{}, objects: map[uint32]bool{},
	}
	for _, t := range s.tables {
		s.sync.ribs[t] = newRib()
	}
	s.stale = false
}

// Abandon forgets what came of routes since Begin: the listing failed.
func (s *Service) Abandon() {
	for _, t := range s.tables {
		s.drop(s.sync.ribs[t])
	}
	s.sync, s.stale = nil, true
}

// End removes the routes that the dump does not contain, and updates the FIBs: an empty
// one is built at once, another is changed where it differs.
func (s *Service) End() error {
	d := s.sync
	s.sync = nil
	s.sweep(d)
	s.stale = false
	for _, t := range s.tables {
		old := t.rib
		t.rib = d.ribs[t]
		if t.built {
			s.differ(t, old)
		}
	}
	// neighbours last: their entries depend on the routes of their tables
	for hop := range s.neighbours {
		s.reconsider(hop)
	}
	for _, t := range s.tables {
		if !t.built {
			s.build(t)
		}
	}
	return s.err
}

// sweep removes what is not in the listing any more.
func (s *Service) sweep(d *dump) {
	for hop, n := range s.neighbours {
		if !d.neighbours[hop] {
			s.NeighbourGone(n)
		}
	}
	for id := range s.objects {
		if !d.objects[id] {
			s.forgetObject(id)
		}
	}
	for k, port := range s.bridged {
		if !d.bridged[k] {
			s.BridgeEntryGone(state.BridgeEntry{Bridge: k.bridge, Port: port, MAC: k.mac})
		}
	}
	for index := range s.links {
		if !d.links[index] {
			s.LinkGone(index)
		}
	}
}

// differ changes a fib where the old routes and those of now differ. Routes that are gone
// come first: there may not be room for the old ones and the new ones together. Both go in
// the order of their addresses, by which a table needs least room beside what it holds.
func (s *Service) differ(t *table, old *rib) {
	var room, other [1]candidate
	for _, p := range inOrder(old) {
		if t.rib.candidates(p, &room) == nil {
			s.update(t, p, s.best(old, p, old.candidates(p, &room)), 0)
		}
	}
	for _, p := range inOrder(t.rib) {
		s.update(t, p, s.best(old, p, old.candidates(p, &room)), s.best(t.rib, p, t.rib.candidates(p, &other)))
	}
	s.drop(old)
}

// inOrder returns the prefixes of a rib by their addresses, the shorter one first.
func inOrder(b *rib) []netip.Prefix {
	var list []netip.Prefix
	for p := range b.all() {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return list
}

// drop lets go of all that a rib held.
func (s *Service) drop(b *rib) {
	for _, list := range b.all() {
		for _, c := range list {
			s.let(s.paths.byNumber[c.number()])
		}
	}
}

// build fills the empty FIBs of a table, which are not in use yet.
func (s *Service) build(t *table) {
	for f := range family(2) {
		if err := t.fibs[f].Build(s.entries(t, f)); err != nil {
			s.full[f] = fmt.Sprintf("the %s table could not be built: %v", f, err)
			s.judge()
		}
	}
	t.built = true
}

// entries returns what a fib is to hold: the routes, and the neighbours.
func (s *Service) entries(t *table, f family) iter.Seq2[netip.Prefix, uint32] {
	return func(yield func(netip.Prefix, uint32) bool) {
		for p, list := range t.rib.family(f) {
			if !yield(p, uint32(s.best(t.rib, p, list))) {
				return
			}
		}
		var room [1]candidate
		for hop, host := range s.hosts {
			p := netip.PrefixFrom(hop.addr, hop.addr.BitLen())
			if familyOf(hop.addr) != f || host.table != t || t.rib.candidates(p, &room) != nil {
				continue
			}
			if !yield(p, uint32(host.path.number)) {
				return
			}
		}
	}
}

// retired is what no packet that starts now can meet.
type retired struct {
	entries []uint32
	groups  []span
}

// Mark stands for what was retired until Seal.
type Mark struct {
	retired
	epoch uint64
	fibs  []fibMark
}

type fibMark struct {
	fib  *fib.Table
	mark uint64
}

// Seal collects what has been retired. After a grace period Release makes it
// fit for use again. ok is false if there is nothing.
func (s *Service) Seal() (m Mark, ok bool) {
	m = Mark{retired: s.retired, epoch: s.epoch}
	s.retired = retired{}
	s.epoch++
	ok = len(m.entries)+len(m.groups)+len(s.paths.unused) > 0
	for _, t := range s.tables {
		for _, f := range t.fibs {
			m.fibs = append(m.fibs, fibMark{f, f.Seal()})
		}
	}
	if s.changes != s.sealed {
		ok, s.sealed = true, s.changes
	}
	return m, ok
}

// Release makes what the mark stands for fit for use again.
func (s *Service) Release(m Mark) {
	for _, f := range m.fibs {
		f.fib.Release(f.mark)
	}
	for _, e := range m.entries {
		s.paths.entries.give(e)
	}
	for _, g := range m.groups {
		s.paths.groups.give(g)
	}
	for p := range s.paths.unused {
		if p.idle <= m.epoch {
			s.forget(p)
		}
	}
}

// Reclaim seals, waits for a grace period, and releases.
func (s *Service) Reclaim() error {
	m, _ := s.Seal()
	if err := s.out.Grace(); err != nil {
		return err
	}
	s.Release(m)
	return nil
}

// forget gives back a path's number and all that it stands for.
func (s *Service) forget(p *path) {
	delete(s.paths.unused, p)
	delete(s.paths.byKey, p.key)
	delete(s.paths.byNumber, p.number)
	leave(s.paths.byHop, p.key.hop, p)
	leave(s.paths.byObject, p.key.object, p)
	if p.key.kind == viaHop && p.word.Kind == state.NexthopNeighbour {
		s.paths.entries.give(p.word.Index)
	}
	if p.group.size != 0 {
		s.paths.groups.give(p.group)
	}
	s.unfollow(p)
	s.setMembers(p, nil)
	s.paths.numbers.give(uint32(p.number))
}

func leave[K comparable](lists map[K][]*path, k K, p *path) {
	for i, q := range lists[k] {
		if q == p {
			lists[k] = append(lists[k][:i:i], lists[k][i+1:]...)
			break
		}
	}
	if len(lists[k]) == 0 {
		delete(lists, k)
	}
}
