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
		s.linkChanged(old, l)
	}
	s.wereUp[l.Index] = s.wereUp[l.Index] || l.Up
}

// linkChanged takes back what goes by a device, and all flows if others may go
// another way now. A device that goes down takes routes with it, without a word;
// they are those of its own flows. One that comes up again may have routes by
// several ways use it again, without a word too.
func (s *Service) linkChanged(old, l state.KernelLink) {
	s.refused.linksChanged()
	s.withdraw(func(k hopKey) bool { return k.out == l.Index || k.device == uint32(l.Index) || k.port == l.Index })
	back := l.Up && !old.Up && s.wereUp[l.Index]
	old.Up, old.MTU, old.MAC, old.XDPTarget = l.Up, l.MTU, l.MAC, l.XDPTarget
	if back || old != l {
		s.bump()
	}
}

// LinkGone takes the news that a device is no more. Another may get its number.
func (s *Service) LinkGone(index int) {
	delete(s.links, index)
	delete(s.wereUp, index)
	s.refused.linksChanged()
	s.withdraw(func(k hopKey) bool { return k.out == index || k.device == uint32(index) || k.port == index })
	if s.arrivals[uint32(index)] > 0 {
		s.bump()
	}
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
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC && k.port != e.Port })
}

// BridgeEntryGone takes the news that a bridge forgot a station.
func (s *Service) BridgeEntryGone(e state.BridgeEntry) {
	if e.Local {
		return
	}
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC })
}

// Object takes news of a next hop object, which routes name. One that is new
// none names yet.
func (s *Service) Object(o state.NexthopObject) {
	old, known := s.objects[o.ID]
	s.objects[o.ID] = o
	if known && (!slices.Equal(old.Group, o.Group) || old.Hop != o.Hop || old.Blackhole != o.Blackhole || old.Other != o.Other) {
		s.leaves(old, 0)
	}
}

// ObjectGone takes the news that one is no more, and with it the routes that
// named it.
func (s *Service) ObjectGone(id uint32) {
	old := s.objects[id]
	delete(s.objects, id)
	s.leaves(old, 0)
}

// objectsDepth bounds how groups of next hop objects stand in each other.
const objectsDepth = 4

// leaves takes back the ways out that an object led to.
func (s *Service) leaves(o state.NexthopObject, depth int) {
	if depth == objectsDepth || o.ID == 0 {
		return
	}
	s.refused.linksChanged()
	for _, m := range o.Group {
		s.leaves(s.objects[m.ID], depth+1)
	}
	switch {
	case o.Other:
		s.routesChanged()
	case len(o.Group) == 0:
		s.withdraw(func(k hopKey) bool {
			return k.out == o.Hop.Device && (k.gateway == o.Hop.Gateway || !k.gateway.IsValid() || !o.Hop.Gateway.IsValid())
		})
	}
}

// Route takes news of a route: it is of the flows with an end within its
// prefix, whatever table it is in, and of no others.
func (s *Service) Route(r *state.KernelRoute, _ state.RouteChange) {
	addr := r.Prefix.Addr()
	if s.listing || r.Type == state.RouteMulticast || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return
	}
	s.routeNews++
	s.check(s.refused.routeChanged(r.Prefix))
	if r.Type != state.RouteUnicast && s.policy.Local {
		s.routeHits++
		s.routesChanged()
		return
	}
	s.routes.forget(r.Prefix)
	list, more := s.connections.within(r.Prefix, backAtOnce)
	if more {
		s.routeHits++
		s.routesChanged()
		return
	}
	if len(list) == 0 {
		return
	}
	s.routeHits++
	var b back
	for _, orig := range list {
		if c := s.connections.get(orig); c != nil {
			s.remove(*c, &b)
		}
	}
	s.check(s.give(b))
}

// backAtOnce bounds the connections that are taken back one by one: of more all
// are, by a number counted up.
const backAtOnce = 4096

// RoutesMayBeGone takes the news that routes may have gone, and nobody says which.
func (s *Service) RoutesMayBeGone() { s.routesChanged() }

func (s *Service) routesChanged() {
	if s.listing {
		return
	}
	s.routes.clear()
	s.bump()
}

// Rules takes all of the kernel's rules. If none of them looks at where packets
// come from, one question for a destination is enough.
func (s *Service) Rules(rules []state.KernelRule) {
	if slices.Equal(s.rules, rules) {
		return
	}
	s.rules = rules
	s.plainRules = !slices.ContainsFunc(rules, func(r state.KernelRule) bool { return !r.Plain && !r.LocalOnly })
	s.routesChanged()
}

// Begin and End stand around a listing of what there is: it is no news.
func (s *Service) Begin() { s.listing = true }
func (s *Service) End()   { s.listing = false }
