package state

import (
	"fmt"
	"net/netip"
	"time"
)

// FlowTuple identifies a packet's flow. It is a key of tables with a million
// entries, and so holds addresses as bytes: IPv4 as ::ffff:a.b.c.d. The ports of an
// ICMP echo are its identifier and its type.
type FlowTuple struct {
	Src, Dst         [16]byte
	SrcPort, DstPort uint16
	Protocol         uint8
}

// Protocols of flows, by their IANA numbers.
const (
	ProtocolICMP   uint8 = 1
	ProtocolTCP    uint8 = 6
	ProtocolUDP    uint8 = 17
	ProtocolICMPv6 uint8 = 58
)

// From and To give the addresses.
func (t FlowTuple) From() netip.Addr { return netip.AddrFrom16(t.Src).Unmap() }
func (t FlowTuple) To() netip.Addr   { return netip.AddrFrom16(t.Dst).Unmap() }

// Is4 reports whether it is of IPv4.
func (t FlowTuple) Is4() bool { return netip.AddrFrom16(t.Src).Is4In6() }

// Echo reports whether it is of echo requests or replies.
func (t FlowTuple) Echo() bool { return t.Protocol == ProtocolICMP || t.Protocol == ProtocolICMPv6 }

// Back returns the tuple of packets in the opposite direction.
func (t FlowTuple) Back() FlowTuple {
	b := FlowTuple{Src: t.Dst, Dst: t.Src, SrcPort: t.DstPort, DstPort: t.SrcPort, Protocol: t.Protocol}
	switch t.Protocol {
	case ProtocolICMP: // echo reply 0, echo request 8
		b.SrcPort, b.DstPort = t.SrcPort, 8-t.DstPort
	case ProtocolICMPv6: // 128 and 129
		b.SrcPort, b.DstPort = t.SrcPort, t.DstPort^1
	}
	return b
}

// Ends gives both ends; that of an echo has its identifier and 0 for ports.
func (t FlowTuple) Ends() (from, to netip.AddrPort) {
	if t.Echo() {
		return netip.AddrPortFrom(t.From(), t.SrcPort), netip.AddrPortFrom(t.To(), 0)
	}
	return netip.AddrPortFrom(t.From(), t.SrcPort), netip.AddrPortFrom(t.To(), t.DstPort)
}

// ProtocolName names its protocol; both families' echoes are icmp.
func (t FlowTuple) ProtocolName() string {
	if t.Echo() {
		return ProtocolName(ProtocolICMP)
	}
	return ProtocolName(t.Protocol)
}

func (t FlowTuple) String() string {
	if t.Echo() {
		return fmt.Sprintf("icmp %s -> %s id %d", t.From(), t.To(), t.SrcPort)
	}
	return fmt.Sprintf("%s %s -> %s", ProtocolName(t.Protocol), netip.AddrPortFrom(t.From(), t.SrcPort), netip.AddrPortFrom(t.To(), t.DstPort))
}

// FlowLink is the link header of a frame that leaves by the lowest device.
type FlowLink struct {
	Dst, Src [6]byte
	Tags     VLANTags
	Session  uint16 // PPPoE; 0: none
}

// PassedFlow is a flow of which enough packets have left, after the ruleset and NAT,
// to be worth offloading.
type PassedFlow struct {
	Interface  uint32    // by which its packets came
	Tuple      FlowTuple // as they leave
	Device     uint32    // the lowest, by which they leave
	Link       FlowLink
	Generation uint32 // of the ruleset, routes and rules
}

// FlowKey is a flow as its packets arrive.
type FlowKey struct {
	Interface uint32
	Tuple     FlowTuple
}

// Flow is one direction of a connection, offloaded.
type Flow struct {
	FlowKey
	Becomes    FlowTuple // addresses and ports that packets get
	Hop        uint32
	Generation uint32
}

// FlowUse is a flow with its counters.
type FlowUse struct {
	Flow
	Packets, Bytes uint64
	Idle           time.Duration // since the last packet, or since it was written
	Closed         bool          // a FIN, RST or SYN came
}

// FlowState are the fields of a flow that decide whether it is still of use.
type FlowState struct {
	Generation uint32
	Hop        uint32
	Idle       time.Duration
	Closed     bool
}

// State gives that of a flow.
func (u *FlowUse) State() FlowState {
	return FlowState{Generation: u.Generation, Hop: u.Hop, Idle: u.Idle, Closed: u.Closed}
}

// FlowHop is a next hop of flows: egress device and link header. Flows refer to it
// by a number.
type FlowHop struct {
	Device    uint32 // the lowest; 0: withdrawn
	Interface uint32 // to which packets back belong
	MTU       uint32
	XDP       bool // Device can be the target of an XDP redirect
	Link      FlowLink
}

// FlowSession maps a PPPoE session to its interface.
type FlowSession struct {
	Below   uint32 // the Ethernet or VLAN interface that it runs over
	Session uint16
	Peer    [6]byte
}

// Bits of Connection.Status, linux/netfilter/nf_conntrack_common.h, IPS_*.
const (
	ConnectionSeenReply uint32 = 1 << 1
	ConnectionAssured   uint32 = 1 << 2
	ConnectionConfirmed uint32 = 1 << 3
	ConnectionDying     uint32 = 1 << 9
)

// States of TCP in connection tracking (TCP_CONNTRACK_ESTABLISHED, _CLOSE).
// Connections in states between them have begun to end.
const (
	TCPEstablished uint8 = 3
	TCPClosed      uint8 = 8
)

// Connection is an entry of the kernel's connection tracking.
type Connection struct {
	Orig, Reply FlowTuple // packets of either direction as they arrive
	Zone        uint16
	ID          uint32
	Status      uint32
	Mark        uint32
	TCP         uint8         // state
	Liberal     bool          // packets of TCP may be in no window that it knows, both ways
	Timeout     time.Duration // what is left
	Special     string        // why only the kernel can carry it ("has a helper"); empty if nothing is special
}

// KeptConnection is a connection whose packets connection tracking does not see.
type KeptConnection struct {
	Orig    FlowTuple
	Zone    uint16
	Timeout time.Duration // that it is to have from now on; 0: what it has
	// Liberal: the packets that come back to the stack are in no window that it knows
	Liberal bool
	Assured bool // it is no more one that gives way when the table is full
}

// FlowAsk is a packet whose route is looked up.
type FlowAsk struct {
	Interface int
	From, To  netip.Addr
	Mark      uint32 // of the firewall, by which rules choose routes
}

// Prefixes returns the addresses that the answer depends on.
func (a FlowAsk) Prefixes() (list []netip.Prefix) {
	for _, addr := range []netip.Addr{a.To, a.From} {
		if addr.IsValid() {
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return list
}

// FlowPath is the kernel's route for it.
type FlowPath struct {
	Device  int
	Gateway netip.Addr // the destination itself if it is on the link
	MTU     uint32     // of the route; 0 if it has none
	Unicast bool       // it has one way out
}
