package route

import (
	"net/netip"
	"slices"

	"weft/internal/state"
)

// Link handles the event of a device: a change of its state, address or MTU is one
// write for each next hop behind it.
func (s *Service) Link(l state.KernelLink) {
	if s.sync != nil {
		s.sync.links[l.Index] = true
	}
	old, known := s.links[l.Index]
	if known && old == l {
		return
	}
	s.links[l.Index] = l
	if known && old.Up && !l.Up {
		s.stale = true // IPv4 routes through it may have gone without a word
	}
	s.linksChanged(old.Master != l.Master)
}

// LinkGone handles the event that a device is no more.
func (s *Service) LinkGone(index int) {
	if _, known := s.links[index]; !known {
		return
	}
	delete(s.links, index)
	s.stale = true
	s.linksChanged(true)
}

// linksChanged looks at every next hop again: devices stand on each other.
func (s *Service) linksChanged(moved bool) {
	for _, list := range s.paths.byHop {
		for _, p := range list {
			s.write(p)
		}
	}
	for k, p := range s.paths.byKey {
		if k.kind == viaLink {
			s.write(p)
		}
	}
	if moved && s.sync == nil {
		for hop := range s.neighbours {
			s.reconsider(hop)
		}
	}
}

// BridgeEntry takes the news behind which port a station is.
func (s *Service) BridgeEntry(e state.BridgeEntry) {
	if e.Local || e.VLAN != 0 {
		return
	}
	k := bridgeKey{e.Bridge, e.MAC}
	if s.sync != nil {
		s.sync.bridged[k] = true
	}
	if s.bridged[k] == e.Port {
		return
	}
	s.bridged[k] = e.Port
	s.stationMoved(e.MAC)
}

// BridgeEntryGone handles the event that a bridge forgot a station.
func (s *Service) BridgeEntryGone(e state.BridgeEntry) {
	k := bridgeKey{e.Bridge, e.MAC}
	if s.bridged[k] != e.Port || e.Local || e.VLAN != 0 {
		return
	}
	delete(s.bridged, k)
	s.stationMoved(e.MAC)
}

func (s *Service) stationMoved(mac [6]byte) {
	for hop, list := range s.paths.byHop {
		if s.neighbours[hop].MAC == mac {
			for _, p := range list {
				s.write(p)
			}
		}
	}
}

// Neighbour handles the event of a neighbour.
func (s *Service) Neighbour(n state.KernelNeighbour) {
	hop := hopKey{n.Addr, n.Device}
	if s.sync != nil {
		s.sync.neighbours[hop] = true
	}
	old, known := s.neighbours[hop]
	if known && old == n {
		return
	}
	s.neighbours[hop] = n
	if !known {
		s.index(hop)
	}
	for _, p := range s.paths.byHop[hop] {
		s.write(p)
	}
	if s.sync == nil && old.State.Usable() != n.State.Usable() {
		s.reconsider(hop)
	}
	if n.State == state.NeighbourStale {
		s.want(hop)
	}
}

// NeighbourGone handles the event that the kernel forgot a neighbour.
func (s *Service) NeighbourGone(n state.KernelNeighbour) {
	hop := hopKey{n.Addr, n.Device}
	if _, known := s.neighbours[hop]; !known {
		return
	}
	delete(s.neighbours, hop)
	s.unindex(hop)
	for _, p := range s.paths.byHop[hop] {
		s.write(p)
	}
	s.reconsider(hop)
	s.want(hop)
}

// index keeps the addresses in order, so that those under a prefix are found.
func (s *Service) index(hop hopKey) {
	s.onDevices[hop.addr] = append(s.onDevices[hop.addr], hop.device)
	f := familyOf(hop.addr)
	if at, found := slices.BinarySearchFunc(s.sorted[f], hop.addr, netip.Addr.Compare); !found {
		s.sorted[f] = slices.Insert(s.sorted[f], at, hop.addr)
	}
}

func (s *Service) unindex(hop hopKey) {
	devices := s.onDevices[hop.addr]
	if i := slices.Index(devices, hop.device); i >= 0 {
		devices = slices.Delete(devices, i, i+1)
	}
	if len(devices) > 0 {
		s.onDevices[hop.addr] = devices
		return
	}
	delete(s.onDevices, hop.addr)
	f := familyOf(hop.addr)
	if at, found := slices.BinarySearchFunc(s.sorted[f], hop.addr, netip.Addr.Compare); found {
		s.sorted[f] = slices.Delete(s.sorted[f], at, at+1)
	}
}

// reconsiderAll looks again at the neighbours under a prefix of a table.
func (s *Service) reconsiderAll(t *table, p netip.Prefix) {
	list := s.sorted[familyOf(p.Addr())]
	at, _ := slices.BinarySearchFunc(list, p.Addr(), netip.Addr.Compare)
	for ; at < len(list) && p.Contains(list[at]); at++ {
		for _, device := range s.onDevices[list[at]] {
			s.reconsider(hopKey{list[at], device})
		}
	}
}

// reconsider decides whether a neighbour has an entry of its own: it is
// reachable, and the longest route to it says that it is on that link.
func (s *Service) reconsider(hop hopKey) {
	var now host
	if t := s.tableBehind(hop.device); t != nil && s.neighbours[hop].State.Usable() && !hop.addr.IsLinkLocalUnicast() {
		now = s.hostPath(t, hop)
	}
	was := s.hosts[hop]
	if was == now {
		return
	}
	if now.path == nil {
		delete(s.hosts, hop)
	} else {
		s.hold(now.path)
		s.hosts[hop] = now
	}
	if was.path != nil {
		s.let(was.path)
	}
	s.putHost(was.table, hop.addr)
	if now.table != was.table {
		s.putHost(now.table, hop.addr)
	}
}

// putHost writes the entry of a neighbour's address, unless routes say more of
// it.
func (s *Service) putHost(t *table, a netip.Addr) {
	if t == nil || !t.built {
		return
	}
	p := netip.PrefixFrom(a, a.BitLen())
	var room [1]candidate
	if s.best(t.rib, p, t.rib.candidates(p, &room)) == 0 {
		s.put(t, p, s.or(t, p, 0))
	}
}

// host is the entry of a neighbour on a link.
type host struct {
	path  *path
	table *table
}

func (s *Service) hostPath(t *table, hop hopKey) host {
	var room [1]candidate
	p, list := t.rib.longest(hop.addr, &room)
	route := s.paths.byNumber[s.best(t.rib, p, list)]
	if route == nil || route.key.kind != viaLink || route.key.hop.device != hop.device {
		return host{}
	}
	via := s.path(pathKey{family: familyOf(hop.addr), kind: viaHop, hop: hop, mtu: route.key.mtu})
	return host{via, t}
}

// Object handles the event of a next hop object: one write, however many routes name it.
func (s *Service) Object(o state.NexthopObject) {
	if s.sync != nil {
		s.sync.objects[o.ID] = true
	}
	s.leaveGroups(s.objects[o.ID])
	s.objects[o.ID] = o
	for _, m := range o.Group {
		if s.inGroups[m.ID] == nil {
			s.inGroups[m.ID] = map[uint32]bool{}
		}
		s.inGroups[m.ID][o.ID] = true
	}
	s.objectChanged(o.ID)
}

// ObjectGone handles the event that a next hop object is no more.
func (s *Service) ObjectGone(id uint32) {
	s.stale = true // so are the routes that named it
	s.forgetObject(id)
}

func (s *Service) forgetObject(id uint32) {
	s.leaveGroups(s.objects[id])
	delete(s.objects, id)
	s.objectChanged(id)
}

func (s *Service) leaveGroups(o state.NexthopObject) {
	for _, m := range o.Group {
		delete(s.inGroups[m.ID], o.ID)
		if len(s.inGroups[m.ID]) == 0 {
			delete(s.inGroups, m.ID)
		}
	}
}

func (s *Service) objectChanged(id uint32) {
	for _, p := range s.paths.byObject[id] {
		s.write(p)
	}
	for group := range s.inGroups[id] {
		for _, p := range s.paths.byObject[group] {
			s.write(p)
		}
	}
}

// want notes that the kernel is to ask for a neighbour, if packets may go to
// it: past the stack they do not make the kernel ask, nor do they confirm.
func (s *Service) want(hop hopKey) {
	if s.asked[hop] || !s.used(hop) {
		return
	}
	n, known := s.neighbours[hop]
	if known && n.State != state.NeighbourStale && n.State != state.NeighbourNone {
		return
	}
	if l, ok := s.links[hop.device]; ok && !l.Up {
		return
	}
	s.asked[hop] = true
	s.resolve = append(s.resolve, hop)
}

func (s *Service) used(hop hopKey) bool {
	return slices.ContainsFunc(s.paths.byHop[hop], func(p *path) bool { return p.refs > 0 })
}

// Unresolved takes at most n of the neighbours that the kernel is to ask for.
func (s *Service) Unresolved(n int) []state.KernelNeighbour {
	var list []state.KernelNeighbour
	for len(s.resolve) > 0 && len(list) < n {
		hop := s.resolve[0]
		s.resolve = s.resolve[1:]
		delete(s.asked, hop)
		if l, ok := s.links[hop.device]; ok && l.Up && l.Ethernet && s.used(hop) {
			list = append(list, state.KernelNeighbour{Device: hop.device, Addr: hop.addr})
		}
	}
	return list
}
