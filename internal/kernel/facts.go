package kernel

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Links reads every device with its addresses.
func (k *Kernel) Links() ([]state.LinkFact, error) {
	links, err := k.nl.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addresses, err := k.nl.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	byLink := map[int][]netip.Prefix{}
	for _, a := range addresses {
		if p, ok := prefixOf(a); ok {
			byLink[a.LinkIndex] = append(byLink[a.LinkIndex], p)
		}
	}
	var family uint16
	if f, err := netlink.GenlFamilyGet("netdev"); err == nil {
		family = f.ID
	}
	var facts []state.LinkFact
	for _, l := range links {
		a := l.Attrs()
		xdp := uint64(0)
		if family != 0 {
			xdp = xdpFeatures(family, a.Index)
		}
		f := state.LinkFact{
			Name: a.Name, Index: a.Index, MTU: a.MTU,
			Up:        a.RawFlags&unix.IFF_UP != 0,
			XDP:       xdp&xdpRedirect == xdpRedirect,
			XDPTarget: xdp&xdpTransmit != 0,
			Addresses: byLink[a.Index],
		}
		if l.Type() != "device" {
			f.Kind = l.Type()
		}
		copy(f.MAC[:], a.HardwareAddr)
		facts = append(facts, f)
	}
	return facts, nil
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

// xdpFeatures gives the feature bits of a device; 0 where the kernel does not
// tell. A dump would be one question for all, but its answers lack the flag
// that says there are more (Linux 6.18), and readers stop at the first.
func xdpFeatures(family uint16, index int) uint64 {
	req := nl.NewNetlinkRequest(int(family), 0)
	req.AddData(&nl.Genlmsg{Command: netdevCmdDevGet, Version: 1})
	req.AddData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(index))))
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(messages) == 0 || len(messages[0]) < nl.SizeofGenlmsg {
		return 0
	}
	attrs, err := nl.ParseRouteAttr(messages[0][nl.SizeofGenlmsg:])
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Attr.Type == netdevAttrXDPFeature && len(a.Value) >= 8 {
			return nl.NativeEndian().Uint64(a.Value)
		}
	}
	return 0
}
