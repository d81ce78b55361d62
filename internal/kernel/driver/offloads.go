package driver

import (
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
)

// OffloadsActive lists the active offloads of a device, by ethtool's names (generic
// netlink family "ethtool"). None if the kernel does not report them.
func OffloadsActive(family *netlink.GenlFamily, index int) (on []string) {
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddRawData([]byte{unix.ETHTOOL_MSG_FEATURES_GET, 1, 0, 0}) // struct genlmsghdr
	header := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_HEADER|nlconn.NestedFlag, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_INDEX, nl.Uint32Attr(uint32(index)))
	req.AddRawData(header.Serialize())
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if len(m) >= nl.SizeofGenlmsg {
			on = append(on, bitNames(m[nl.SizeofGenlmsg:])...)
		}
	}
	return on
}

// bitNames lists the names of the bits that are set in the ACTIVE bitset of a
// FEATURES_GET_REPLY: a list of names, as it was not asked for the compact form.
func bitNames(reply []byte) (names []string) {
	active := inside([][]byte{reply}, unix.ETHTOOL_A_FEATURES_ACTIVE)
	bits := inside(inside(active, unix.ETHTOOL_A_BITSET_BITS), unix.ETHTOOL_A_BITSET_BITS_BIT)
	for _, name := range inside(bits, unix.ETHTOOL_A_BITSET_BIT_NAME) {
		names = append(names, nl.BytesToString(name))
	}
	return names
}

// inside returns the values of all attributes of one type in any of the lists.
func inside(lists [][]byte, kind uint16) (values [][]byte) {
	for _, list := range lists {
		attrs, err := nl.ParseRouteAttr(list)
		if err != nil {
			continue
		}
		for _, a := range attrs {
			if a.Attr.Type&^nlconn.NestedFlag == kind {
				values = append(values, a.Value)
			}
		}
	}
	return values
}
