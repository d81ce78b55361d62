package lnsrun

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"weft/internal/state"
	"weft/internal/subscriber"
)

// subscriberRoutes are the kernel's routes to subscribers that no route of a pool
// covers: addresses and prefixes from RADIUS, and framed routes.
type subscriberRoutes struct {
	covered []netip.Prefix            // prefixes of the plan's routes
	of      map[uint16][]netip.Prefix // by session id
	held    []netip.Prefix            // delegated to this router's own clients
	refused map[netip.Prefix]error    // the kernel's errors
}

// set records the result of setting a route.
func (r *subscriberRoutes) set(p netip.Prefix, err error) {
	switch {
	case err == nil:
		delete(r.refused, p)
	case r.refused == nil:
		r.refused = map[netip.Prefix]error{p: err}
	default:
		r.refused[p] = err
	}
}

// fault is the error of the routes that could not be set, nil if there are none.
func (r *subscriberRoutes) fault() error {
	if len(r.refused) == 0 {
		return nil
	}
	first := slices.SortedFunc(maps.Keys(r.refused), netip.Prefix.Compare)[0]
	if n := len(r.refused); n > 1 {
		return fmt.Errorf("%d routes to subscribers are missing, the first: %w", n, r.refused[first])
	}
	return fmt.Errorf("a route to a subscriber is missing: %w", r.refused[first])
}

func coveredBy(servers []subscriber.ServerSettings) []netip.Prefix {
	var list []netip.Prefix
	for _, s := range servers {
		for _, p := range s.Pools {
			list = slices.Concat(list, p.Addresses, p.Prefixes, p.Delegate, p.Addresses6)
		}
		list = slices.Concat(list, s.Prefixes, s.Delegate, s.Addresses6)
		for _, user := range s.Users {
			u := user.Profile
			for _, p := range append([]netip.Prefix{u.Prefix, u.Delegated}, u.Routes...) {
				if p.IsValid() {
					list = append(list, p)
				}
			}
			for _, a := range []netip.Addr{u.IPv4, u.IPv6} {
				if a.IsValid() {
					list = append(list, netip.PrefixFrom(a, a.BitLen()))
				}
			}
		}
	}
	return list
}

// needs returns the prefixes of a session that need routes of their own.
func (r *subscriberRoutes) needs(s state.L2TPSession) []netip.Prefix {
	if s.Trusted {
		return nil // a client's session: its routes are the plan's
	}
	list := slices.Clone(s.Prefixes)
	for _, a := range []netip.Addr{s.IPv4, s.IPv6} {
		if a.IsValid() {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return slices.DeleteFunc(list, func(p netip.Prefix) bool {
		return slices.ContainsFunc(r.covered, func(c netip.Prefix) bool { return c.Bits() <= p.Bits() && c.Contains(p.Addr()) })
	})
}

// route adds and removes routes as sessions begin and end.
func (s *subscribers) route(t subscriber.SessionDelta) {
	r := &s.routes
	r.covered = s.covered
	for _, id := range t.Ended {
		s.unroute(r.of[id])
		delete(r.of, id)
	}
	for _, one := range t.Sessions {
		want := r.needs(one)
		s.unroute(slices.DeleteFunc(slices.Clone(r.of[one.Local]), func(p netip.Prefix) bool { return slices.Contains(want, p) }))
		for _, p := range want {
			if slices.Contains(r.of[one.Local], p) {
				continue
			}
			err := s.doors.Kernel.RouteSubscriber(p, s.devices[one.LNS])
			r.set(p, err)
			if err != nil {
				s.log.Error("cannot add the route to a subscriber", "prefix", p.String(), "error", err)
			}
		}
		if r.of[one.Local] = want; len(want) == 0 {
			delete(r.of, one.Local)
		}
	}
}

func (s *subscribers) unroute(list []netip.Prefix) {
	for _, p := range list {
		s.routes.set(p, nil)
		if err := s.doors.Kernel.UnrouteSubscriber(p); err != nil {
			s.log.Warn("cannot remove the route to a subscriber", "prefix", p.String(), "error", err)
		}
	}
}

// delegatedTo returns the prefixes that servers have delegated to our clients.
func delegatedTo(learned map[string]subscriber.Learned) []netip.Prefix {
	var list []netip.Prefix
	for _, l := range learned {
		if l.Delegated.IsValid() {
			list = append(list, l.Delegated)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// hold adds unreachable routes for the delegated prefixes, so that packets for unused
// parts of them do not loop between this router and the provider.
func (s *subscribers) hold(learned map[string]subscriber.Learned) {
	r, want := &s.routes, delegatedTo(learned)
	if slices.Equal(want, r.held) {
		return
	}
	s.unroute(slices.DeleteFunc(r.held, func(p netip.Prefix) bool { return slices.Contains(want, p) }))
	for _, p := range want {
		err := s.doors.Kernel.HoldSubscriber(p)
		r.set(p, err)
		if err != nil {
			s.log.Warn("cannot add the unreachable route for a delegated prefix; packets for unused parts of it may loop", "prefix", p.String(), "error", err)
		}
	}
	r.held = want
}

// sweepRoutes removes the routes of a previous process that no restored session needs.
func (s *subscribers) sweepRoutes(learned map[string]subscriber.Learned) {
	wanted := map[netip.Prefix]bool{}
	for _, p := range delegatedTo(learned) {
		wanted[p] = true
	}
	for _, list := range s.routes.of {
		for _, p := range list {
			wanted[p] = true
		}
	}
	if err := s.doors.Kernel.UnrouteSubscribers(func(p netip.Prefix) bool { return wanted[p] }); err != nil {
		s.log.Warn("cannot remove old routes to subscribers", "error", err)
	}
}
