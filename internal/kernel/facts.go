package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

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
	byLink := map[int][]netip.Prefix{}
	for _, a := range addresses {
		if p, ok := prefixOf(a); ok {
			byLink[a.LinkIndex] = append(byLink[a.LinkIndex], p)
		}
	}
	netdev, noFeatures := netlink.GenlFamilyGet("netdev")
	ethtool, noOffloads := netlink.GenlFamilyGet("ethtool")
	names := linkNames(links)
	var facts []state.LinkFact
	for _, l := range links {
		a := l.Attrs()
		// there may be thousands of wires, and what they can is known
		wire := l.Type() == "veth" && strings.HasPrefix(a.Alias, AliasPrefix)
		f := state.LinkFact{
			Name: a.Name, Index: a.Index, MTU: a.MTU,
			Up:        a.RawFlags&unix.IFF_UP != 0,
			Addresses: byLink[a.Index],
		}
		if wire {
			f.XDP, f.XDPTarget = true, true
		} else if noFeatures == nil {
			xdp := xdpFeatures(netdev, a.Index)
			f.XDP, f.XDPTarget = xdp&xdpRedirect == xdpRedirect, xdp&xdpTransmit != 0
		}
		if noOffloads == nil && !wire {
			on := offloadsActive(ethtool, a.Index)
			f.GRO, f.GROList = slices.Contains(on, "rx-gro"), slices.Contains(on, "rx-gro-list")
		}
		if l.Type() != "device" {
			f.Kind = l.Type()
		}
		copy(f.MAC[:], a.HardwareAddr)
		f.Master = names[a.MasterIndex]
		stacked(&f, l, names)
		if !wire {
			switchFacts(&f, l, names, "/sys/class/net")
		}
		bridgeFacts(&f, l, names, s.bridgings[a.Index].bridge)
		facts = append(facts, f)
	}
	return facts, nil
}

// stacked fills in what a device stands on, or what stands below it.
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
	list, err := listed(func() ([]netlink.Addr, error) { return k.nl.AddrList(nil, netlink.FAMILY_ALL) })
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

// The generic netlink family "netdev" (linux/netdev.h) tells what a driver's
// XDP can do. Kernels before 6.3 do not have it.
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrXDPFeature = 3

	xdpRedirect = 1 | 2 // NETDEV_XDP_ACT_BASIC, NETDEV_XDP_ACT_REDIRECT
	xdpTransmit = 4     // NETDEV_XDP_ACT_NDO_XMIT
)

// isXDPTarget tells whether XDP can redirect frames to a device.
func isXDPTarget(index int) bool {
	family, err := netlink.GenlFamilyGet("netdev")
	return err == nil && xdpFeatures(family, index)&xdpTransmit != 0
}

// xdpFeatures gives the feature bits of a device; none where the kernel does
// not tell. Each device is asked for on its own: the kernel does not mark the
// messages of a dump as parts of one (NLM_F_MULTI), and the netlink package
// stops reading at the first.
func xdpFeatures(family *netlink.GenlFamily, index int) uint64 {
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	// struct genlmsghdr: command, version, reserved. The kernel wants the last
	// to be zero; nl.Genlmsg has no such field and sends what lies behind it.
	req.AddRawData([]byte{netdevCmdDevGet, 1, 0, 0})
	req.AddRawData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(index))).Serialize())
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			continue
		}
		for _, a := range attrs {
			if a.Attr.Type == netdevAttrXDPFeature && len(a.Value) >= 8 {
				return nl.NativeEndian().Uint64(a.Value)
			}
		}
	}
	return 0
}
