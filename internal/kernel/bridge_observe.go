package kernel

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// observeBridges reads bridges of weft's, their ports, VLANs and fixed
// addresses, and devices that were made for guests.
func (k *Kernel) observeBridges(s *survey, wanted map[string]state.Object) ([]state.Object, error) {
	links, all := s.links, s.bridgings
	if !k.bridgesMatter(links, wanted) {
		return nil, nil
	}
	names, ours := linkNames(links), map[int]bool{}
	var found []state.Object
	for _, l := range links {
		a := l.Attrs()
		owner, marked := strings.CutPrefix(a.Alias, AliasPrefix)
		if b, is := l.(*netlink.Bridge); is && marked {
			ours[a.Index] = true
			o := bridgeObject(b, owner, all[a.Index].bridge)
			if want, ok := wanted[o.Key()].(state.Bridge); ok && want.MAC != ([6]byte{}) && len(a.HardwareAddr) == 6 {
				o.MAC = [6]byte(a.HardwareAddr)
			}
			found = append(found, o)
		}
	}
	for _, l := range links {
		if p, ok := k.portObject(l, names, all[l.Attrs().Index].port, wanted); ok {
			found = append(found, p)
		}
		if g, ok := guestObject(l, links, wanted); ok {
			found = append(found, g)
		}
		if o := (state.NoOffloads{Device: l.Attrs().Name}); k.offloadsMatter(o, wanted) {
			off, err := offloadsOff(o.Device)
			if err != nil {
				return nil, err
			}
			if off {
				found = append(found, o)
			}
		}
	}
	vlans, err := k.observeVLANs(links, ours)
	if err != nil {
		return nil, err
	}
	entries, err := k.observeEntries(links, ours)
	return append(append(found, vlans...), entries...), err
}

// bridgesMatter spares hosts without bridges of weft's a few listings.
func (k *Kernel) bridgesMatter(links []netlink.Link, wanted map[string]state.Object) bool {
	for _, o := range wanted {
		switch o.(type) {
		case state.Bridge, state.GuestDevice, state.NoOffloads:
			return true
		}
	}
	for _, l := range links {
		switch l.Type() {
		case "bridge", "veth", "tuntap":
			if strings.HasPrefix(l.Attrs().Alias, AliasPrefix) {
				return true
			}
		}
	}
	for key := range k.journal.was {
		if strings.HasPrefix(key, "bridge-port ") || strings.HasPrefix(key, "no-offloads ") {
			return true
		}
	}
	return false
}

func bridgeObject(b *netlink.Bridge, owner string, data attrs) state.Bridge {
	o := state.Bridge{
		Name: b.Name, Owner: owner, VLANs: data.number(brVLANFilter) == 1,
		Snooping: data.number(brMulticast) == 1, MaxLearned: uint32(data.number(brMaxLearned)),
	}
	off := []uint16{brSTP, brGroupForward, brQuerier, brCallIPTables, brCallIP6, brCallARP}
	if o.VLANs {
		off = append(off, brDefaultPVID)
	}
	for _, kind := range off {
		if data.number(kind) != 0 {
			o.Owner += ", changed by others" // differs from what is wanted, and is set again
			break
		}
	}
	return o
}

// portObject reads a port that is wanted or that weft has put into a bridge.
func (k *Kernel) portObject(l netlink.Link, names map[int]string, data attrs, wanted map[string]state.Object) (state.BridgePort, bool) {
	a := l.Attrs()
	p := state.BridgePort{Device: a.Name, Bridge: names[a.MasterIndex]}
	want, isWanted := wanted[p.Key()].(state.BridgePort)
	_, noted := k.journal.was[p.Key()]
	if !noted || data == nil && isWanted {
		return p, false // not in a bridge, or not by weft: it has to be put there
	}
	if data == nil {
		return p, true // to be forgotten
	}
	p.Isolated, p.Locked = data.number(portIsolated) == 1, data.number(portLocked) == 1
	p.Suppress, p.Guest = data.number(portSuppress) == 1, data.number(portMulticastRtr) == 0
	if isWanted && want == p {
		for kind, value := range wantedPort(p) {
			if _, known := data[kind]; known && data.number(kind) != value {
				p.Bridge += ", changed by others"
				break
			}
		}
	}
	return p, true
}

func (k *Kernel) observeVLANs(links []netlink.Link, ours map[int]bool) ([]state.Object, error) {
	vlans, err := listed(k.nl.BridgeVlanList)
	if err != nil {
		return nil, fmt.Errorf("list VLANs of bridges: %w", err)
	}
	var found []state.Object
	for _, l := range links {
		a := l.Attrs()
		if !ours[a.Index] && !ours[a.MasterIndex] {
			continue
		}
		for _, v := range vlans[int32(a.Index)] {
			o := state.BridgeVLAN{Device: a.Name, VLAN: v.Vid, Untagged: v.PortVID() && v.EngressUntag(), Self: ours[a.Index]}
			if v.PortVID() != v.EngressUntag() {
				continue // not as weft makes them: set again
			}
			found = append(found, o)
		}
	}
	return found, nil
}

// observeEntries reads what stands for good in the tables of weft's bridges.
func (k *Kernel) observeEntries(links []netlink.Link, ours map[int]bool) ([]state.Object, error) {
	names := linkNames(links)
	var found []state.Object
	if len(ours) == 0 {
		return nil, nil
	}
	entries, err := k.neighbours(0, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("list addresses of bridges: %w", err)
	}
	for _, e := range entries {
		// a port's own address is permanent, an entry of weft's static
		if !ours[e.MasterIndex] || e.State != netlink.NUD_NOARP || len(e.HardwareAddr) != 6 {
			continue
		}
		found = append(found, state.BridgeAddress{Device: names[e.LinkIndex], MAC: [6]byte(e.HardwareAddr), VLAN: uint16(e.Vlan)})
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for index := range ours {
			list, err := k.neighbours(index, family)
			if err != nil {
				return nil, fmt.Errorf("list neighbours of %s: %w", names[index], err)
			}
			for _, n := range list {
				addr, ok := netip.AddrFromSlice(n.IP)
				if ok && n.State == netlink.NUD_PERMANENT && len(n.HardwareAddr) == 6 {
					found = append(found, state.Neighbour{Device: names[index], Addr: addr.Unmap(), MAC: [6]byte(n.HardwareAddr)})
				}
			}
		}
	}
	return found, nil
}

// bridgeFacts fills in what a bridge's kernel can do, and a veth's other end.
func bridgeFacts(f *state.LinkFact, l netlink.Link, names map[int]string, data attrs) {
	switch l.(type) {
	case *netlink.Bridge:
		_, f.VLANAware = data[brVLANProtocol]
		_, f.LimitsMAC = data[brMaxLearned]
	case *netlink.Veth:
		if l.Attrs().NetNsID < 0 {
			f.Peer = names[l.Attrs().ParentIndex]
		}
	}
}
