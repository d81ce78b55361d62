package state

import "net/netip"

// The kernel's routes, neighbours and devices, as plain values: internal/kernel
// reads them, internal/feature/route makes the programs' tables from them.

// RouteType is what a route does; values as in linux/rtnetlink.h, enum RTN_*.
type RouteType uint8

const (
	RouteUnspec      RouteType = 0
	RouteUnicast     RouteType = 1
	RouteLocal       RouteType = 2
	RouteBroadcast   RouteType = 3
	RouteAnycast     RouteType = 4
	RouteMulticast   RouteType = 5
	RouteBlackhole   RouteType = 6
	RouteUnreachable RouteType = 7
	RouteProhibit    RouteType = 8
	RouteThrow       RouteType = 9
)

func (t RouteType) String() string {
	names := [...]string{"unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit", "throw"}
	if int(t) >= len(names) {
		return "unknown"
	}
	return names[t]
}

// The kernel's tables that always are (rt_tables).
const (
	TableDefault = 253
	TableMain    = 254
	TableLocal   = 255
)

// KernelRoute is one route of the kernel's. A value may share its Hops with
// the next one that the same reader gives.
type KernelRoute struct {
	Prefix    netip.Prefix // masked
	Table     uint32
	Metric    uint32
	Object    uint32 // id of a next hop object; 0 if the hops are its own
	MTU       uint32 // of the route; 0 if it has none
	Type      RouteType
	Protocol  uint8
	TOS       uint8       // IPv4: the route is for this one only, if not zero
	SourceOf  bool        // IPv6: the route is for some sources only
	Expires   bool        // IPv6: goes by itself some time
	Cached    bool        // not a route but the memory of one
	Hops      []KernelHop // unicast only
	Malformed bool        // has parts that are not understood
}

// KernelHop is one next hop of a route.
type KernelHop struct {
	Gateway netip.Addr // not valid: the destination is on the link
	Device  int
	Weight  int  // 1 to 65536
	Encap   bool // encapsulated by the kernel (lwtunnel)
}

// RouteChange is the kind of a route event.
type RouteChange uint8

const (
	RouteAdded    RouteChange = iota // before those of the same metric
	RouteAppended                    // behind those of the same metric
	RouteReplaced                    // instead of the first of the same metric
	RouteDeleted
)

// NexthopObject is a next hop that routes name by its id (`ip nexthop`).
type NexthopObject struct {
	ID        uint32
	Hop       KernelHop
	Blackhole bool
	Other     bool // of a kind that is not mirrored
	Group     []ObjectMember
}

// ObjectMember is one of a group of next hop objects.
type ObjectMember struct {
	ID     uint32
	Weight int
}

// KernelNeighbour is an entry of the kernel's neighbour tables.
type KernelNeighbour struct {
	Device int
	Addr   netip.Addr
	MAC    [6]byte
	State  NeighbourState
	Proxy  bool
}

// NeighbourState is a bit of linux/neighbour.h, NUD_*.
type NeighbourState uint16

const (
	NeighbourNone       NeighbourState = 0x00
	NeighbourIncomplete NeighbourState = 0x01
	NeighbourReachable  NeighbourState = 0x02
	NeighbourStale      NeighbourState = 0x04
	NeighbourDelay      NeighbourState = 0x08
	NeighbourProbe      NeighbourState = 0x10
	NeighbourFailed     NeighbourState = 0x20
	NeighbourNoARP      NeighbourState = 0x40
	NeighbourPermanent  NeighbourState = 0x80
)

// Usable reports whether frames may be sent to the neighbour's link address
// (NUD_VALID of the kernel).
func (s NeighbourState) Usable() bool {
	return s&(NeighbourReachable|NeighbourStale|NeighbourDelay|NeighbourProbe|NeighbourNoARP|NeighbourPermanent) != 0
}

func (s NeighbourState) String() string {
	for bit, name := range map[NeighbourState]string{
		NeighbourIncomplete: "incomplete", NeighbourReachable: "reachable", NeighbourStale: "stale", NeighbourDelay: "delay",
		NeighbourProbe: "probe", NeighbourFailed: "failed", NeighbourNoARP: "noarp", NeighbourPermanent: "permanent",
	} {
		if s == bit {
			return name
		}
	}
	return "none"
}

// BridgeEntry is an entry of a bridge's FDB: the port of a station.
type BridgeEntry struct {
	Bridge int
	Port   int
	MAC    [6]byte
	VLAN   uint16 // 0: the bridge does not tell VLANs apart
	Local  bool   // the bridge's own
}

// KernelLink is a device, with the properties that matter to routes.
type KernelLink struct {
	Index     int
	Name      string
	Kind      string // as `ip -d link` prints it; empty for a physical device
	MAC       [6]byte
	MTU       int
	Up        bool // set up, and has a carrier
	Ethernet  bool
	Lower     int    // VLAN, port of a switch: the device below
	Port      int    // port of a switch: its number, counted from 1; 0: not known
	VLAN      uint16 // VLAN: its id
	VLANProto uint16 // VLAN: 0x8100 or 0x88a8
	Master    int    // bridge, bond or VRF that it belongs to
	VRFTable  uint32 // VRF: the table of its members
	Filtering bool   // bridge: tells VLANs apart
	XDPTarget bool   // can be the target of an XDP redirect
	Sessions  bool   // weft's own, with the sessions of subscribers behind it
	Bypass    bool   // weft's own, a pseudowire that routed packets may go past
}

// KernelRule is one policy routing rule (`ip rule`).
type KernelRule struct {
	IPv6      bool
	Priority  uint32
	Table     uint32
	Lookup    bool   // its action is to look into Table
	Plain     bool   // it matches all packets
	LocalOnly bool   // it never matches packets that are forwarded
	L3MDev    bool   // the rule that sends VRF members to their tables
	Text      string // as `ip rule` prints it, about
}
