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

// Err is the first error of a write.
func (s *Service) Err() error { return s.err }

// Link handles the event that a device was added or has changed.
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

// LinkGone handles the event that a device was removed. Another may get its index.
func (s *Service) LinkGone(index int) {
	delete(s.links, index)
	delete(s.wereUp, index)
	s.refused.linksChanged()
	s.withdraw(func(k hopKey) bool { return k.out == index || k.device == uint32(index) || k.port == index })
	if s.arrivals[uint32(index)] > 0 {
		s.bump()
	}
}

// Neighbour handles the event that a neighbour entry was added or has changed.
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

// NeighbourGone handles the event that a neighbour entry was removed.
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

// Stale returns the neighbours that the kernel must probe: packets that bypass the stack
// do not cause probes.
func (s *Service) Stale() []state.KernelNeighbour {
	list := s.resolve
	s.resolve = nil
	return list
}

// BridgeEntry handles an event of a bridge's FDB: the port of a station.
func (s *Service) BridgeEntry(e state.BridgeEntry) {
	if e.Local {
		return
	}
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC && k.port != e.Port })
}

// BridgeEntryGone handles the event that an FDB entry was removed.
func (s *Service) BridgeEntryGone(e state.BridgeEntry) {
	if e.Local {
		return
	}
	s.withdraw(func(k hopKey) bool { return k.out == e.Bridge && k.link.Dst == e.MAC })
}

// Object handles the event that a nexthop object was added or has changed. No route
// refers to a new one yet.
func (s *Service) Object(o state.NexthopObject) {
	old, known := s.objects[o.ID]
	s.objects[o.ID] = o
	if known && (!slices.Equal(old.Group, o.Group) || old.Hop != o.Hop || old.Blackhole != o.Blackhole || old.Other != o.Other) {
		s.leaves(old, 0)
	}
}

// ObjectGone handles the event that a nexthop object was removed, and with it the routes
// that refer to it.
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

// Route handles an event of a route: it affects flows with an address within its prefix,
// in any table, and no other flows.
func (s *Service) Route(r *state.KernelRoute, _ state.RouteChange) {
	addr := r.Prefix.Addr()
	if s.dump || r.Type == state.RouteMulticast || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return
	}
	s.routeEvents++
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

// RoutesMayBeGone handles the event that unknown routes may have been removed.
func (s *Service) RoutesMayBeGone() { s.routesChanged() }

func (s *Service) routesChanged() {
	if s.dump {
		return
	}
	s.routes.clear()
	s.bump()
}

// Rules takes all rules of the kernel (ip-rule(8)). If none matches source addresses, one
// lookup per destination is enough.
func (s *Service) Rules(rules []state.KernelRule) {
	if slices.Equal(s.rules, rules) {
		return
	}
	s.rules = rules
	s.plainRules = !slices.ContainsFunc(rules, func(r state.KernelRule) bool { return !r.Plain && !r.LocalOnly })
	s.routesChanged()
}

// Begin and End enclose a dump of existing objects, which are not changes.
func (s *Service) Begin() { s.dump = true }
func (s *Service) End()   { s.dump = false }
