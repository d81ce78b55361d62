package route

import (
	"net/netip"
	"slices"

	"weft/internal/state"
)

// changed returns the routes to a prefix after the news. old is left alone.
func (s *Service) changed(old []candidate, c candidate, r *state.KernelRoute, change state.RouteChange) []candidate {
	now := append(make([]candidate, 0, len(old)+1), old...)
	for i := range now {
		now[i].path &^= severalFor
	}
	if r.Prefix.Addr().Is6() {
		return s.changed6(now, c, r, change)
	}
	for i := range now {
		if !now[i].same(c) {
			continue
		}
		if change == state.RouteDeleted {
			return append(now[:i], now[i+1:]...)
		}
		return now // an event that a dump contained already
	}
	switch change {
	case state.RouteDeleted:
		return now
	case state.RouteReplaced:
		for i := range now {
			if now[i].rivals(c) && now[i].tos() == c.tos() {
				now[i] = c
				return now
			}
		}
	}
	return insert(now, c, change == state.RouteAppended)
}

// changed6 is changed for IPv6, where gateways of one metric are one route:
// its news name all of them, and a deletion those that go (net/ipv6/route.c).
func (s *Service) changed6(now []candidate, c candidate, r *state.KernelRoute, change state.RouteChange) []candidate {
	joins := func(d candidate) bool { return d.rivals(c) && s.joins(d, r.Prefix) }
	for i := range now {
		d := now[i]
		switch {
		case change == state.RouteDeleted && s.paths.byNumber[c.number()].key.kind == viaStack && d.same(c):
			// one of several gateways, perhaps: the kernel must tell what is left
			s.stale = true
			return now
		case change == state.RouteDeleted && d.same(c):
			return append(now[:i], now[i+1:]...)
		case change == state.RouteDeleted && joins(d):
			if left, ok := s.without(d, c); ok {
				now[i].path = left | d.path&ofLocal
				return now
			}
		case change == state.RouteDeleted:
		case d.same(c):
			return now
		case joins(d) && s.joins(c, r.Prefix), change == state.RouteReplaced && d.rivals(c):
			now[i] = c
			return now
		}
	}
	if change == state.RouteDeleted {
		return now
	}
	return insert(now, c, true)
}

// joins reports whether a route of IPv6 is one that gateways may join.
func (s *Service) joins(c candidate, p netip.Prefix) bool {
	k := s.paths.byNumber[c.number()].key
	return k.kind == viaGroup || k.kind == viaHop && k.hop.addr != p.Addr()
}

// without takes the hops of c away from those of d.
func (s *Service) without(d, c candidate) (number, bool) {
	from, gone := s.paths.byNumber[d.number()], s.paths.byNumber[c.number()]
	leave := map[*path]bool{gone: true}
	for _, m := range gone.hops {
		leave[m.path] = true
	}
	var left []member
	for _, m := range from.hops {
		if !leave[m.path] {
			left = append(left, m)
		}
	}
	switch len(left) {
	case len(from.hops), 0:
		return 0, false
	case 1:
		return left[0].path.number, true
	}
	return s.groupPath(from.key.family, left).number, true
}

// best returns the next hop of a prefix by the routes to it, 0 if it has none.
func (s *Service) best(b *rib, p netip.Prefix, list []candidate) number {
	if len(list) == 0 {
		return 0
	}
	c := list[0]
	unsure := len(list) > 1 && list[1].rivals(c) && list[1].number() != c.number()
	for _, d := range list {
		unsure = unsure || d.tos()
	}
	if !c.local() {
		for _, broad := range b.broad {
			// the kernel looks into the table local first, whatever is longer
			unsure = unsure || broad.Contains(p.Addr()) && broad.Bits() < p.Bits()
		}
	}
	if unsure {
		return s.stack(familyOf(p.Addr()), whyUnsure).number
	}
	return c.number()
}

// noteBroad remembers the local table's prefixes of more than one address,
// but for those that packets never reach the tables for.
// It gives whether that is news.
func noteBroad(b *rib, p netip.Prefix, there bool) bool {
	if a := p.Addr(); a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return false
	}
	at := slices.Index(b.broad, p)
	switch {
	case there && at < 0:
		b.broad = append(b.broad, p)
	case !there && at >= 0:
		b.broad = slices.Delete(b.broad, at, at+1)
	default:
		return false
	}
	return true
}

// lookUnder writes the entries under a prefix of the local table again.
func (s *Service) lookUnder(t *table, broad netip.Prefix) {
	for p, list := range t.rib.family(familyOf(broad.Addr())) {
		if broad.Contains(p.Addr()) && p.Bits() > broad.Bits() {
			s.put(t, p, s.best(t.rib, p, list))
		}
	}
	s.reconsiderAll(t, broad)
}
