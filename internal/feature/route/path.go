package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/state"
)

// path is a next hop that routes share: one number, one word in the datapath.
type path struct {
	key    pathKey
	number number
	refs   int           // routes, host entries, groups and objects that use it
	idle   uint64        // the epoch in which the last of them let it go
	word   state.Nexthop // as it stands in the datapath
	known  bool          // word was written
	hops   []member      // of a group or a list of hops of its own
	// a way through a gateway
	entry    state.NeighbourEntry // as it stands in the datapath, if word says so
	follower []*path              // objects that are this path under another name
	follows  *path
	group    span     // where a group's members stand
	written  []uint32 // those members
}

// pathKey says which paths are the same.
type pathKey struct {
	family family
	kind   pathKind
	hop    hopKey
	object uint32
	mtu    uint32 // of the route; 0 if it has none
	group  string // the hops of a list, encoded
	why    why    // viaStack: what is not mirrored
}

type pathKind uint8

const (
	viaStack       pathKind = iota // what is not mirrored, and what only the kernel knows
	viaLink                        // the destination is on the link itself
	viaLocal                       // the router itself
	viaBlackhole                   //
	viaUnreachable                 // unreachable or prohibit
	viaHop                         // a gateway, or a host on the link
	viaGroup                       // several gateways
	viaObject                      // a next hop object of the kernel's
)

// why says why a route is left to the kernel.
type why string

const (
	whyType    why = "of a type that only the kernel carries out (throw, NAT)"
	whySource  why = "for some sources only"
	whyExpires why = "with a lifetime, from router advertisements"
	whyStrange why = "with parts that weft does not know"
	whyEncap   why = "with an encapsulation of the kernel's"
	whyMixed   why = "with several hops, not all of them gateways"
	whyFull    why = "for which the datapath has no next hop left"
	whyUnsure  why = "between several of one metric, or by type of service"
)

// hopKey is a neighbour that frames are sent to.
type hopKey struct {
	addr   netip.Addr
	device int
}

// member is one hop of a group.
type member struct {
	path   *path
	weight int
}

// span is a range of the words that hold groups.
type span struct{ at, size uint32 }

// groupMax bounds the members of a group in the datapath: weights are brought
// to fit.
const groupMax = 256

// pathOf returns the number of the path that a route takes. Routes of one kind
// share it.
func (s *Service) pathOf(r *state.KernelRoute) *path {
	f := familyOf(r.Prefix.Addr())
	switch r.Type {
	case state.RouteLocal, state.RouteBroadcast, state.RouteAnycast, state.RouteMulticast:
		return s.path(pathKey{family: f, kind: viaLocal})
	case state.RouteBlackhole:
		return s.path(pathKey{family: f, kind: viaBlackhole})
	case state.RouteUnreachable, state.RouteProhibit:
		return s.path(pathKey{family: f, kind: viaUnreachable})
	case state.RouteUnicast:
	default:
		return s.stack(f, whyType)
	}
	switch {
	case r.SourceOf:
		return s.stack(f, whySource)
	case r.Expires:
		return s.stack(f, whyExpires)
	case r.Malformed:
		return s.stack(f, whyStrange)
	case r.Object != 0:
		return s.path(pathKey{family: f, kind: viaObject, object: r.Object, mtu: r.MTU})
	}
	return s.hopsPath(f, r.Prefix, r.Hops, r.MTU)
}

// hopsPath is the path through hops of the route's own.
func (s *Service) hopsPath(f family, p netip.Prefix, hops []state.KernelHop, mtu uint32) *path {
	if len(hops) == 1 {
		return s.path(s.hopPath(f, p, hops[0], mtu))
	}
	var members []member
	for _, h := range hops {
		k := s.hopPath(f, netip.Prefix{}, h, mtu)
		if k.kind != viaHop {
			return s.stack(f, whyMixed)
		}
		members = append(members, member{s.path(k), h.Weight})
	}
	return s.groupPath(f, members)
}

// hopPath is the key of the path through one hop. The one address of a host
// route on the link is a gateway to itself, but for subscribers, whom the
// datapath tells apart.
func (s *Service) hopPath(f family, p netip.Prefix, h state.KernelHop, mtu uint32) pathKey {
	switch {
	case h.Encap || h.Device == 0:
		return pathKey{family: f, kind: viaStack, why: whyEncap}
	case h.Gateway.IsValid():
		return pathKey{family: f, kind: viaHop, hop: hopKey{h.Gateway, h.Device}, mtu: mtu}
	case p.IsValid() && p.IsSingleIP() && !s.links[h.Device].Sessions:
		return pathKey{family: f, kind: viaHop, hop: hopKey{p.Addr(), h.Device}, mtu: mtu}
	}
	return pathKey{family: f, kind: viaLink, hop: hopKey{device: h.Device}, mtu: mtu}
}

func (s *Service) groupPath(f family, members []member) *path {
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.path.number, b.path.number) })
	var key []byte
	for _, m := range members {
		key = fmt.Appendf(key, "%d*%d ", m.path.number, m.weight)
	}
	k := pathKey{family: f, kind: viaGroup, group: string(key)}
	if p, ok := s.paths.byKey[k]; ok {
		return p
	}
	p := s.path(k)
	if p.key != k {
		return p // there are no numbers left
	}
	p.hops = members
	for _, m := range members {
		s.hold(m.path)
	}
	s.write(p)
	return p
}

// path returns the path of a key, new if there is none yet.
func (s *Service) path(k pathKey) *path {
	if p, ok := s.paths.byKey[k]; ok {
		return p
	}
	n, ok := s.paths.numbers.take()
	if !ok {
		return s.stack(k.family, whyFull)
	}
	p := &path{key: k, number: number(n)}
	s.paths.byKey[k] = p
	s.paths.byNumber[p.number] = p
	s.paths.unused[p], p.idle = true, s.epoch
	switch k.kind {
	case viaHop:
		s.paths.byHop[k.hop] = append(s.paths.byHop[k.hop], p)
	case viaObject:
		s.paths.byObject[k.object] = append(s.paths.byObject[k.object], p)
	}
	s.write(p)
	return p
}

// stack is the path of routes that are left to the kernel. All reasons have
// their numbers from the beginning.
func (s *Service) stack(f family, w why) *path {
	return s.path(pathKey{family: f, kind: viaStack, why: w})
}

// hold counts one more use of a path, let one less. A path without any keeps
// its number until Release: a route that comes back finds it again.
func (s *Service) hold(p *path) {
	if p.refs++; p.refs > 1 {
		return
	}
	delete(s.paths.unused, p)
	if p.key.kind == viaHop {
		s.want(p.key.hop)
	}
}

func (s *Service) let(p *path) {
	if p.refs--; p.refs == 0 {
		p.idle = s.epoch
		s.paths.unused[p] = true
	}
}

// paths hands out numbers and remembers what they stand for.
type paths struct {
	byKey    map[pathKey]*path
	byNumber map[number]*path
	byHop    map[hopKey][]*path
	byObject map[uint32][]*path
	numbers  pool
	entries  pool // of neighbours
	groups   spans
	unused   map[*path]bool // without a route; a flap takes them again
}

func newPaths(first, last number) *paths {
	return &paths{
		byKey: map[pathKey]*path{}, byNumber: map[number]*path{}, byHop: map[hopKey][]*path{}, byObject: map[uint32][]*path{}, unused: map[*path]bool{},
		numbers: pool{next: uint32(first), last: uint32(last)},
		entries: pool{next: uint32(first), last: uint32(last)},
		groups:  spans{next: uint32(first), last: uint32(last), free: map[uint32][]uint32{}},
	}
}

// pool hands out numbers, used ones first.
type pool struct {
	next, last uint32
	free       []uint32
}

func (p *pool) take() (uint32, bool) {
	if n := len(p.free); n > 0 {
		v := p.free[n-1]
		p.free = p.free[:n-1]
		return v, true
	}
	if p.next > p.last {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

func (p *pool) give(v uint32) { p.free = append(p.free, v) }

// spans hands out ranges of words.
type spans struct {
	next, last uint32
	free       map[uint32][]uint32 // size -> starts
}

func (g *spans) take(size uint32) (span, bool) {
	if list := g.free[size]; len(list) > 0 {
		g.free[size] = list[:len(list)-1]
		return span{list[len(list)-1], size}, true
	}
	if g.next+size-1 > g.last {
		return span{}, false
	}
	g.next += size
	return span{g.next - size, size}, true
}

func (g *spans) give(s span) { g.free[s.size] = append(g.free[s.size], s.at) }

// buckets spreads the members of a group by weight over at most groupMax
// places, each getting one at least.
func buckets(members []member) []uint32 {
	total, divisor := 0, 0
	for _, m := range members {
		total, divisor = total+m.weight, gcd(divisor, m.weight)
	}
	scale := func(w int) int { return w / divisor }
	if total/divisor > groupMax {
		scale = func(w int) int { return max(1, w*groupMax/total) }
	}
	var list []uint32
	for _, m := range members {
		for range scale(m.weight) {
			list = append(list, uint32(m.path.number))
		}
	}
	return list
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
