package state

import (
	"fmt"
	"strings"
)

// NexthopKind is the kind of a next hop.
type NexthopKind uint32

func (k NexthopKind) String() string {
	if names := nexthopKindNames(); int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Nexthop is what a route's value stands for.
type Nexthop struct {
	Kind  NexthopKind
	Index uint32 // what it means, Kind says
}

// Ethertypes of VLAN tags, IEEE 802.1Q table 9-1.
const (
	VLANCustomer uint16 = 0x8100 // a C-TAG, as of `ip link add type vlan`
	VLANService  uint16 = 0x88a8 // an S-TAG, the outer one of QinQ
	SwitchTag    uint16 = 0x00f8 // a switch's (DSA): the port is its id (linux/if_ether.h, ETH_P_XDSA)
)

// VLANTag is a tag of a frame; the zero value is none.
type VLANTag struct {
	Proto uint16 // ethertype, VLANCustomer or VLANService; SwitchTag
	ID    uint16 // 1..4094; as an entry of Tags the priority bits are 0
}

// VLANTags are those of a frame, outermost first; at most two.
type VLANTags [2]VLANTag

// Len is how many tags there are.
func (t VLANTags) Len() int {
	for i, tag := range t {
		if tag.Proto == 0 {
			return i
		}
	}
	return len(t)
}

// String is like "vlan 7" or "qinq 5 vlan 7"; empty for none.
func (t VLANTags) String() string {
	var words []string
	for _, tag := range t[:t.Len()] {
		name := "vlan"
		switch tag.Proto {
		case VLANService:
			name = "qinq"
		case SwitchTag:
			name = "port"
		}
		words = append(words, fmt.Sprintf("%s %d", name, tag.ID))
	}
	return strings.Join(words, " ")
}

// NeighbourEntry is the egress device and link header of frames to an Ethernet
// neighbour.
type NeighbourEntry struct {
	IfIndex          uint32   // of the device that sends: below a VLAN, a port of a bridge
	MTU              uint32   // most bytes of an IP packet, of the device that the route names
	Dst              [6]byte  // the neighbour's link address
	Src              [6]byte  // that of the device that the route names
	Tags             VLANTags // what the frame carries on the sending device
	XDP              bool     // the sending device can be the target of an XDP redirect
	PseudowireDevice bool     // the sending device is a pseudowire's, with the bypass
}

// RouteTables are the sizes of weft's own route tables: arrays of that many 32-bit
// words each, in the layout of package fib. Their content is not an object.
type RouteTables struct {
	Words4 int
	Words6 int
}

func (r RouteTables) Key() string    { return "route-tables" }
func (r RouteTables) Domain() Domain { return Datapath }
func (r RouteTables) String() string {
	return fmt.Sprintf("route-tables ipv4 %d kB ipv6 %d kB each", r.Words4*4/1024, r.Words6*4/1024)
}

// Lower says to which interface frames belong that arrive on a device below
// it: those with a VLAN's tags to the VLAN interface, those without any on a
// port of a bridge to the bridge. Both devices have a Port.
type Lower struct {
	Device string   // where they arrive
	Tags   VLANTags // none: Device is a port of the bridge Upper
	Upper  string
}

func (l Lower) Key() string {
	return strings.TrimSpace(fmt.Sprintf("lower %s %s", l.Device, l.Tags))
}
func (l Lower) Domain() Domain { return Datapath }
func (l Lower) String() string { return fmt.Sprintf("%s of %s", l.Key(), l.Upper) }
