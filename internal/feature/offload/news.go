package offload

import (
	"slices"

	"weft/internal/state"
)

// The kernel's news of what flows depend on: Service is a kernel.RouteSink.

func (s *Service) check(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err gives the first error that writing had.
func (s *Service) Err() error { return s.err }

// Link takes news of a device.
func (s *Service) Link(l state.KernelLink) {
	old, known := s.links[l.Index]
	s.links[l.Index] = l
	if known && old != l {
		s.linkChanged(l.Index)
	}
}

// LinkGone takes the news that a device is no more.
func (s *Service) LinkGone(index int) {
	delete(s.links, index)
	s.linkChanged(index)
}

// linkChanged: routes over it may have gone without a word, and devices stand on
// it.
func (s *Service) linkChanged(index int) {
	s.withdraw(func(k hopKey) bool { return k.out == index || k.device == uint32(index) })
	s.ways.Bump()
}

// Neighbour takes news of a neighbour.
func (s *Service) Neighbour(n state.KernelNeighbour) {
	k := neighbour{n.Device, n.Addr}
	old, known := s.neighbours[k]
	s.neighbours[k] = n
	if known && old.State.Usable() && (!n.State.Usable() || old.MAC != n.MAC) {
		s.neighbourChanged(k)
	}
	if n.State == state.NeighbourStale && s.used(k) {
		s.resolve = append(s.resolve, n)
	}
}

// NeighbourGone takes the news that the kernel forgot a neighbour.
func (s *Service) NeighbourGone(n state.KernelNeighbour) {
	k := neighbour{n.Device, n.Addr}
	delete(s.neighbours, k)
	s.neighbourChanged(k)
}

func (s *Service) neighbourChanged(n neighbour) {
	s.withdraw(func(k hopKey) bool { return k.out == n.device && k.gateway == n.addr })
}

func (s *Service) used(n neighbour) bool {
	for k, number := range s.hops.byKey {
		if k.out == n.device && k.gateway == n.addr && s.hops.list[number].refs > 0 {
			return true
		}
	}
	return false
}

// Stale takes the neighbours that the kernel is to confirm: packets past the
// stack do not make it do so.
func (s *Service) Stale() []state.KernelNeighbour {
	list := s.resolve
	s.resolve = nil
	return list
}

// BridgeEntry takes the news behind which port a station is.
func (s *Service) BridgeEntry(e state.BridgeEntry) {
	if e.Local {
		return
	}
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC && k.device != uint32(e.Port) })
}

// BridgeEntryGone takes the news that a bridge forgot a station.
func (s *Service) BridgeEntryGone(e state.BridgeEntry) {
	if e.Local {
		return
	}
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC })
}

// Object and ObjectGone take news of next hop objects, which routes name.
func (s *Service) Object(state.NexthopObject) { s.routesChanged() }
func (s *Service) ObjectGone(uint32)          { s.routesChanged() }

// Route takes news of a route.
func (s *Service) Route(r *state.KernelRoute, _ state.RouteChange) {
	if r.Type == state.RouteMulticast || r.Prefix.Addr().IsMulticast() {
		return
	}
	s.routesChanged()
}

// RoutesMayBeGone takes the news that routes may have gone.
func (s *Service) RoutesMayBeGone() { s.routesChanged() }

func (s *Service) routesChanged() {
	if s.listing {
		return
	}
	clear(s.routes)
	s.ways.Bump()
}

// Rules takes all of the kernel's rules. If none of them looks at where packets
// come from, one question for a destination is enough.
func (s *Service) Rules(rules []state.KernelRule) {
	s.plainRules = !slices.ContainsFunc(rules, func(r state.KernelRule) bool { return !r.Plain && !r.LocalOnly })
	s.routesChanged()
}

// Begin and End stand around a listing of what there is: it is no news.
func (s *Service) Begin() { s.listing = true }
func (s *Service) End()   { s.listing = false }
