package route

import (
	"slices"

	"weft/internal/state"
)

// write brings a path's word in the datapath to what links, neighbours and
// objects say now. One store changes all the routes that share the path.
func (s *Service) write(p *path) {
	word := s.word(p)
	if s.suspended[p.key.family] != "" {
		word = state.Nexthop{}
	}
	s.store(p, word)
}

func (s *Service) store(p *path, word state.Nexthop) {
	if p.known && p.word == word {
		return
	}
	s.check(s.out.SetNexthop(uint32(p.number), word))
	if p.known && p.word.Kind == state.NexthopNeighbour && p.follows == nil {
		s.retired.entries = append(s.retired.entries, p.word.Index)
	}
	p.word, p.known = word, true
	for _, f := range p.follower {
		s.store(f, word)
	}
}

// word returns what a path's word is to be. New entries and groups are written
// before the word that leads to them.
func (s *Service) word(p *path) state.Nexthop {
	switch p.key.kind {
	case viaLocal:
		return state.Nexthop{Kind: state.NexthopLocal}
	case viaBlackhole:
		return state.Nexthop{Kind: state.NexthopBlackhole}
	case viaUnreachable:
		return state.Nexthop{Kind: state.NexthopUnreachable}
	case viaLink:
		if s.links[p.key.hop.device].Sessions {
			return state.Nexthop{Kind: state.NexthopSession, Index: uint32(p.key.hop.device)}
		}
	case viaHop:
		return s.hopWord(p)
	case viaGroup:
		return s.groupWord(p)
	case viaObject:
		return s.objectWord(p)
	}
	return state.Nexthop{} // the kernel forwards
}

func (s *Service) hopWord(p *path) state.Nexthop {
	entry, ok := s.entry(p.key)
	if !ok {
		return state.Nexthop{}
	}
	if p.known && p.word.Kind == state.NexthopNeighbour && p.entry == entry {
		return p.word
	}
	index, ok := s.paths.entries.take()
	if !ok {
		return state.Nexthop{}
	}
	s.check(s.out.SetNeighbour(index, entry))
	p.entry = entry
	return state.Nexthop{Kind: state.NexthopNeighbour, Index: index}
}

func (s *Service) groupWord(p *path) state.Nexthop {
	if len(p.hops) == 0 {
		return state.Nexthop{}
	}
	members := buckets(p.hops)
	if p.known && p.word.Kind == state.NexthopGroup && slices.Equal(members, p.written) {
		return p.word
	}
	at, ok := s.paths.groups.take(uint32(len(members)) + 1)
	if !ok {
		return state.Nexthop{}
	}
	s.check(s.out.SetGroup(at.at, members))
	if p.group.size != 0 {
		s.retired.groups = append(s.retired.groups, p.group)
	}
	p.group, p.written = at, members
	return state.Nexthop{Kind: state.NexthopGroup, Index: at.at}
}

// objectWord makes a next hop object's path follow the hop that it is, or
// gives it a group of its own.
func (s *Service) objectWord(p *path) state.Nexthop {
	s.unfollow(p)
	o, known := s.objects[p.key.object]
	switch {
	case !known || o.Other:
		return state.Nexthop{}
	case o.Blackhole:
		return state.Nexthop{Kind: state.NexthopBlackhole}
	case len(o.Group) > 0:
		members, ok := s.objectMembers(p, o)
		s.setMembers(p, members)
		if !ok {
			return state.Nexthop{}
		}
		return s.groupWord(p)
	}
	s.setMembers(p, nil)
	hop := s.objectHop(p, o)
	if hop == nil {
		return state.Nexthop{}
	}
	s.hold(hop)
	p.follows = hop
	hop.follower = append(hop.follower, p)
	return hop.word
}

// objectHop is the path through the gateway of an object, nil if it has none.
func (s *Service) objectHop(p *path, o state.NexthopObject) *path {
	if o.Hop.Encap || o.Hop.Device == 0 || !o.Hop.Gateway.IsValid() {
		return nil
	}
	return s.path(pathKey{family: p.key.family, kind: viaHop, hop: hopKey{o.Hop.Gateway, o.Hop.Device}, mtu: p.key.mtu})
}

func (s *Service) objectMembers(p *path, o state.NexthopObject) (members []member, ok bool) {
	for _, m := range o.Group {
		single, known := s.objects[m.ID]
		if !known || single.Blackhole || single.Other || len(single.Group) > 0 {
			return nil, false
		}
		hop := s.objectHop(p, single)
		if hop == nil {
			return nil, false
		}
		members = append(members, member{hop, m.Weight})
	}
	return members, true
}

func (s *Service) setMembers(p *path, members []member) {
	for _, m := range members {
		s.hold(m.path)
	}
	for _, m := range p.hops {
		s.let(m.path)
	}
	p.hops = members
}

func (s *Service) unfollow(p *path) {
	if p.follows == nil {
		return
	}
	i := slices.Index(p.follows.follower, p)
	p.follows.follower = slices.Delete(p.follows.follower, i, i+1)
	s.let(p.follows)
	p.follows = nil
	p.known = false // its word's entry belongs to the hop
}

// entry returns how frames get to a neighbour; false if weft cannot send them:
// the link is down, the neighbour's address is not known, or the way there
// leads through a device that wants the kernel.
func (s *Service) entry(k pathKey) (state.NeighbourEntry, bool) {
	l, ok := s.links[k.hop.device]
	n, known := s.neighbours[k.hop]
	if !ok || !known || !l.Up || !l.Ethernet || !n.State.Usable() {
		return state.NeighbourEntry{}, false
	}
	e := state.NeighbourEntry{MTU: uint32(l.MTU), Dst: n.MAC, Src: l.MAC}
	if k.mtu != 0 {
		e.MTU = min(e.MTU, k.mtu)
	}
	l, e.Tags, ok = s.lower(l, n.MAC)
	e.IfIndex, e.XDP, e.PseudowireDevice = uint32(l.Index), l.XDPTarget, l.Bypass && e.Tags.Len() == 0
	return e, ok
}

// stacked bounds how many devices may stand on each other.
const stacked = 4

// lower goes down from the device that a route names to the one that sends,
// and collects the tags on the way, outermost first.
func (s *Service) lower(l state.KernelLink, to [6]byte) (state.KernelLink, state.VLANTags, bool) {
	var tags state.VLANTags
	for range stacked {
		next := 0
		switch l.Kind {
		case "vlan":
			if tags.Len() == len(tags) || l.Lower == 0 {
				return l, tags, false
			}
			tags = state.VLANTags{{Proto: l.VLANProto, ID: l.VLAN}, tags[0]}
			next = l.Lower
		case "bridge":
			if l.Filtering {
				return l, tags, false
			}
			next = s.bridged[bridgeKey{l.Index, to}]
		case "vrf":
			return l, tags, false
		default:
			return l, tags, l.Up && l.Ethernet
		}
		var ok bool
		if l, ok = s.links[next]; !ok || !l.Up {
			return l, tags, false
		}
	}
	return l, tags, false
}
