// Package driver reads the capabilities of a device's driver, and which switch port
// a device is.
package driver

import (
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The generic netlink family "netdev" (linux/netdev.h) tells what a driver's
// XDP can do. Kernels before 6.3 do not have it.
const (
	netdevCmdDevGet      = 1
	netdevAttrIfindex    = 1
	netdevAttrXDPFeature = 3

	XDPRedirect = 1 | 2 // NETDEV_XDP_ACT_BASIC, NETDEV_XDP_ACT_REDIRECT
	XDPTransmit = 4     // NETDEV_XDP_ACT_NDO_XMIT
)

// IsXDPTarget reports whether XDP can redirect frames to a device.
func IsXDPTarget(index int) bool {
	family, err := netlink.GenlFamilyGet("netdev")
	return err == nil && XDPFeatures(family, index)&XDPTransmit != 0
}

// XDPFeatures returns the feature bits of a device; none if the kernel does not
// report them. Each device is queried on its own: the kernel does not mark the
// messages of a dump as parts of one (NLM_F_MULTI), and the netlink package stops
// reading at the first.
func XDPFeatures(family *netlink.GenlFamily, index int) uint64 {
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
