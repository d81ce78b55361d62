package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/driver"
	"weft/internal/kernel/manager"
	"weft/internal/kernel/mark"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Links reads every device with its addresses.
func (k *Kernel) Links() ([]state.LinkFact, error) {
	s, err := k.look()
	if err != nil {
		return nil, err
	}
	k.recent.Store(s)
	links := s.links
	addresses, err := k.addresses()
	if err != nil {
		return nil, err
	}
	byLink, learnt := map[int][]netip.Prefix{}, map[int]bool{}
	for _, a := range addresses {
		if p, ok := prefixOf(a); ok {
			byLink[a.LinkIndex] = append(byLink[a.LinkIndex], p)
			// SLAAC (RFC 4862) and DHCPv6: addresses with a lifetime
			learnt[a.LinkIndex] = learnt[a.LinkIndex] || p.Addr().Is6() && !p.Addr().IsLinkLocalUnicast() && a.Flags&unix.IFA_F_PERMANENT == 0
		}
	}
	netdev, noFeatures := netlink.GenlFamilyGet("netdev")
	ethtool, noOffloads := netlink.GenlFamilyGet("ethtool")
	names := linkNames(links)
	managers := manager.LocalAddr.Of(names)
	var facts []state.LinkFact
	ours := map[int]bool{}
	for _, l := range links {
		ours[l.Attrs().Index] = isOurs(l.Attrs())
	}
	for _, l := range links {
		a := l.Attrs()
		// there may be thousands of pseudowires, and their capabilities are known
		pseudowire := l.Type() == "veth" && strings.HasPrefix(a.Alias, mark.AliasPrefix)
		f := state.LinkFact{
			Name: a.Name, Index: a.Index, MTU: a.MTU,
			Up:        a.RawFlags&unix.IFF_UP != 0,
			Addresses: byLink[a.Index],
			Manager:   managers[a.Name],
			Foreign:   !isOurs(a) && !ours[pairedWith(l)],
		}
		if pseudowire {
			f.XDP, f.XDPTarget = true, true
		} else if noFeatures == nil {
			xdp := driver.XDPFeatures(netdev, a.Index)
			f.XDP, f.XDPTarget = xdp&driver.XDPRedirect == driver.XDPRedirect, xdp&driver.XDPTransmit != 0
		}
		if noOffloads == nil && !pseudowire {
			on := driver.OffloadsActive(ethtool, a.Index)
			f.GRO, f.GROList = slices.Contains(on, "rx-gro"), slices.Contains(on, "rx-gro-list")
		}
		if l.Type() != "device" {
			f.Kind = l.Type()
		}
		if a.EncapType == "ether" || a.EncapType == "loopback" {
			copy(f.MAC[:], a.HardwareAddr)
		} else {
			f.Encap = a.EncapType
		}
		if !pseudowire && k.acceptsRA(a.Name) {
			f.AcceptRA, f.LearntRA = true, learnt[a.Index] || k.keptRA(a.Name)
		}
		f.Master = names[a.MasterIndex]
		stacked(&f, l, names)
		if !pseudowire {
			driver.SwitchFacts(&f, l, names, "/sys/class/net")
		}
		bridgeFacts(&f, l, names, s.bridgings[a.Index].bridge)
		facts = append(facts, f)
	}
	return facts, nil
}

// stacked fills in the devices above or below a device.
func stacked(f *state.LinkFact, l netlink.Link, names map[int]string) {
	switch l := l.(type) {
	case *netlink.Vlan:
		f.Tag = state.VLANTag{Proto: state.VLANCustomer, ID: uint16(l.VlanId)}
		if l.VlanProtocol == netlink.VLAN_PROTOCOL_8021AD {
			f.Tag.Proto = state.VLANService
		}
		if l.NetNsID < 0 { // else the index is another namespace's
			f.Lower = names[l.ParentIndex]
		}
	case *netlink.Bridge:
		f.Filtering = l.VlanFiltering != nil && *l.VlanFiltering
	case *netlink.Vrf:
		f.VRFTable = l.Table
	}
}

// addresses lists those of all devices.
func (k *Kernel) addresses() ([]netlink.Addr, error) {
	list, err := nlconn.Listed(func() ([]netlink.Addr, error) { return k.nl.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return list, nil
}

func prefixOf(a netlink.Addr) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := a.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones), true
}

// LinkAt returns the facts of one device, without its driver's capabilities.
func (k *Kernel) LinkAt(index int) (state.LinkFact, error) {
	l, err := k.nl.LinkByIndex(index)
	if err != nil {
		return state.LinkFact{}, fmt.Errorf("find device %d: %w", index, err)
	}
	a := l.Attrs()
	f := state.LinkFact{Name: a.Name, Index: a.Index, MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0}
	if a.EncapType == "ether" {
		copy(f.MAC[:], a.HardwareAddr)
	}
	f.XDPTarget = driver.IsXDPTarget(a.Index)
	return f, nil
}

// isOurs reports whether weft has made a device, or was about to.
func isOurs(a *netlink.LinkAttrs) bool {
	return strings.HasPrefix(a.Alias, mark.AliasPrefix) || a.Group == mark.DoomedGroup
}

// pairedWith returns the index of the other end of a veth pair, 0 for other devices.
// weft marks the ends one after the other: a killed start leaves one of them unmarked.
func pairedWith(l netlink.Link) int {
	if l.Type() != "veth" || l.Attrs().NetNsID >= 0 {
		return 0
	}
	return l.Attrs().ParentIndex
}
