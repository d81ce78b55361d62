package offload

import (
	"net/netip"
	"slices"

	"weft/internal/state"
)

// hops hands out numbers of ways out, and remembers what they depend on.
type hops struct {
	byKey map[hopKey]uint32
	list  map[uint32]*hop
	free  []uint32
	next  uint32
}

// HopsMax is the maximum number of next-hop entries, as in the datapath.
const HopsMax = 4096

// hopKey says which ways out are the same.
type hopKey struct {
	gateway netip.Addr
	out     int // the interface that the route names
	device  uint32
	port    int // by which frames leave: the device, or a switch's port behind it
	mtu     uint32
	link    state.FlowLink
}

type hop struct {
	key       hopKey
	refs      int
	withdrawn bool
	session   state.FlowSession
}

func newHops() *hops {
	return &hops{byKey: map[hopKey]uint32{}, list: map[uint32]*hop{}}
}

func (h *hops) take() (uint32, bool) {
	if n := len(h.free); n > 0 {
		v := h.free[n-1]
		h.free = h.free[:n-1]
		return v, true
	}
	if h.next == HopsMax {
		return 0, false
	}
	h.next++
	return h.next - 1, true
}

func (h *hops) hold(n uint32) { h.list[n].refs++ }

func (h *hops) release(n uint32) { h.list[n].refs-- }

// hop returns the number of the way out of a candidate, new if there is none yet.
func (s *Service) hop(c candidate) (uint32, Why, error) {
	out, lowest := s.links[c.way.Device], s.links[int(c.passed.Device)]
	port := s.port(lowest, c.passed.Link.Tags)
	key := hopKey{gateway: c.way.Gateway, out: c.way.Device, device: c.passed.Device, port: port.Index, link: c.passed.Link, mtu: uint32(out.MTU)}
	if c.way.MTU != 0 {
		key.mtu = min(key.mtu, c.way.MTU)
	}
	switch {
	case !out.Up || !lowest.Up || !port.Up:
		return 0, WhyNoLink, nil
	case out.Ethernet:
		n, known := s.neighbours[neighbour{c.way.Device, c.way.Gateway}]
		if !known || !n.State.Usable() {
			return 0, WhyNeighbour, nil
		}
		if n.MAC != c.passed.Link.Dst || out.MAC != c.passed.Link.Src || c.passed.Link.Session != 0 || !s.stands(out, port, 0) {
			return 0, WhyOtherWay, nil
		}
	case out.Kind != "ppp" || c.passed.Link.Session == 0:
		return 0, WhyOtherWay, nil
	default:
		key.gateway = netip.Addr{} // one peer
	}
	if n, there := s.hops.byKey[key]; there {
		return n, "", nil
	}
	n, ok := s.hops.take()
	if !ok {
		return 0, WhyHops, nil
	}
	h := &hop{key: key}
	if key.link.Session != 0 {
		h.session = state.FlowSession{Below: s.upper(c.passed.Device, key.link.Tags), Session: key.link.Session, Peer: key.link.Dst}
		if err := s.ways.SetSession(h.session, uint32(key.out)); err != nil {
			return 0, "", err
		}
	}
	s.hops.byKey[key], s.hops.list[n] = n, h
	return n, "", s.ways.SetHop(n, state.FlowHop{
		Device: key.device, Interface: uint32(key.out), MTU: key.mtu, XDP: lowest.XDPTarget, Link: key.link,
	})
}

// port returns the device that stands for the port of a switch behind a lowest
// device that frames with such tags go to; without a switch's tag the device
// itself.
func (s *Service) port(lowest state.KernelLink, tags state.VLANTags) state.KernelLink {
	if tags[0].Proto != state.SwitchTag {
		return lowest
	}
	for _, l := range s.links {
		if l.Kind == "dsa" && l.Lower == lowest.Index && l.Port == int(tags[0].ID)+1 {
			return l
		}
	}
	return state.KernelLink{}
}

// stackedMax bounds how many devices may stand on each other.
const stackedMax = 4

// stands reports whether frames of an interface leave by that lowest device.
func (s *Service) stands(out, lowest state.KernelLink, depth int) bool {
	if out.Index == lowest.Index {
		return true
	}
	if depth == stackedMax {
		return false
	}
	if out.Kind == "vlan" {
		below, there := s.links[out.Lower]
		return there && s.stands(below, lowest, depth+1)
	}
	return out.Kind == "bridge" && lowest.Master == out.Index
}

// upper returns the interface to which frames with such tags on a lowest device
// belong.
func (s *Service) upper(device uint32, tags state.VLANTags) uint32 {
	at := s.port(s.links[int(device)], tags).Index
	for _, tag := range tags[:tags.Len()] {
		for _, l := range s.links {
			if l.Kind == "vlan" && l.Lower == at && l.VLAN == tag.ID && l.VLANProto == tag.Proto {
				at = l.Index
				break
			}
		}
	}
	return uint32(at)
}

// withdraw takes back all ways out that fit: no flow passes by them any more.
func (s *Service) withdraw(fits func(hopKey) bool) {
	for n, h := range s.hops.list {
		if h.withdrawn || !fits(h.key) {
			continue
		}
		h.withdrawn = true
		delete(s.hops.byKey, h.key)
		s.check(s.ways.SetHop(n, state.FlowHop{}))
		if h.session.Session != 0 {
			s.check(s.ways.SetSession(h.session, 0))
		}
	}
	s.routes.clear()
}

// reclaim makes numbers free that nothing names any more, in their order, so that
// the same events give the same numbers.
func (s *Service) reclaim() {
	before := len(s.hops.free)
	for n, h := range s.hops.list {
		if h.withdrawn && h.refs == 0 {
			delete(s.hops.list, n)
			s.hops.free = append(s.hops.free, n)
		}
	}
	slices.Sort(s.hops.free[before:])
}
