package kernel

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
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
	xdp := xdpFeatures()
	var facts []state.LinkFact
	for _, l := range links {
		a := l.Attrs()
		f := state.LinkFact{
			Name: a.Name, Index: a.Index, MTU: a.MTU,
			Up:        a.RawFlags&unix.IFF_UP != 0,
			XDP:       xdp[a.Index]&xdpRedirect == xdpRedirect,
			XDPTarget: xdp[a.Index]&xdpTransmit != 0,
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

// xdpFeatures gives the feature bits by interface index; empty where the
// kernel does not tell.
func xdpFeatures() map[int]uint64 {
	features := map[int]uint64{}
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return features
	}
	messages, err := dump(family.ID, netdevCmdDevGet)
	if err != nil {
		return features
	}
	for _, m := range messages {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			continue
		}
		index, bits := 0, uint64(0)
		for _, a := range attrs {
			switch {
			case a.Attr.Type == netdevAttrIfindex && len(a.Value) >= 4:
				index = int(nl.NativeEndian().Uint32(a.Value))
			case a.Attr.Type == netdevAttrXDPFeature && len(a.Value) >= 8:
				bits = nl.NativeEndian().Uint64(a.Value)
			}
		}
		features[index] = bits
	}
	return features
}

// dump collects the answers to a generic netlink dump. This family leaves the
// mark of a message in several parts out (NLM_F_MULTI, netlink(7)), at which
// netlink's own Execute stops after the first; and it wants the header's
// reserved bytes to be zero, which netlink's own Genlmsg leaves to chance.
func dump(family uint16, command byte) ([][]byte, error) {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := socket.SetReceiveTimeout(&unix.Timeval{Sec: 2}); err != nil {
		return nil, err
	}
	req := nl.NewNetlinkRequest(int(family), unix.NLM_F_DUMP)
	req.AddRawData([]byte{command, 1, 0, 0}) // struct genlmsghdr: command, version, reserved
	if err := socket.Send(req); err != nil {
		return nil, err
	}
	var answers [][]byte
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return answers, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("generic netlink family %d refuses a dump", family)
			}
			answers = append(answers, m.Data)
		}
	}
}
