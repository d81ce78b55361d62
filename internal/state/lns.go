package state

import (
	"fmt"
	"net/netip"
	"time"
)

// What the programs know of subscribers whose packets come in L2TP and PPP.
// Feature access makes it, internal/datapath keeps it in maps.

// Access is one section that ends tunnels: its device is where the stack sees
// all its subscribers.
type LNS struct {
	ID     int // 0..LNSesMax-1
	Name   string
	Device string
	MAC    [6]byte // of the device
	Table  int     // of weft's own routing for what subscribers send, 0..RouteTablesMax-1
	Routed bool    // by weft's own tables, past the stack, where they know the way
}

func (a LNS) Key() string    { return fmt.Sprintf("lns %d", a.ID) }
func (a LNS) Domain() Domain { return Datapath }
func (a LNS) String() string {
	s := fmt.Sprintf("lns %d %s on %s", a.ID, a.Name, a.Device)
	if a.Routed {
		s += fmt.Sprintf(" routed by table %d", a.Table)
	}
	return s
}

// Garden is a destination that subscribers in the walled garden may reach.
type WalledGarden struct {
	LNS    int
	Prefix netip.Prefix
}

func (g WalledGarden) Key() string    { return fmt.Sprintf("walled-garden %s of lns %d", g.Prefix, g.LNS) }
func (g WalledGarden) Domain() Domain { return Datapath }
func (g WalledGarden) String() string { return g.Key() }

// L2TPTunnel is an L2TP tunnel (RFC 2661) as packets show it. Both addresses
// are of one family, without a zone.
type L2TPTunnel struct {
	Local  uint16 // id that this side has given, not 0: the peer sends to it
	Remote uint16 // id that the peer has given
	// Here and Peer are the UDP ends. What comes from elsewhere is dropped.
	LocalAddr, Peer netip.AddrPort
}

// L2TPSession is one subscriber's session.
type L2TPSession struct {
	// Local is the id that this side has given: not 0, and no other session of
	// any tunnel has it, because it is the session's place in the tables.
	Local  uint16
	Remote uint16 // id that the peer has given
	Tunnel uint16 // the tunnel's Local
	LNS    int

	// What the subscriber may use, and what is sent to it. A source that is in
	// none of them is spoofed. Prefixes are masked; their order means nothing.
	IPv4     netip.Addr     // not valid: none
	IPv6     netip.Addr     // of DHCPv6 IA_NA, or in the prefix below with the interface id
	Prefixes []netip.Prefix // advertised, delegated and framed, both families

	MTU uint16 // most bytes of an IP packet to the subscriber: the least of its MRU and ours
	MSS uint16 // TCP's MSS over IPv4 is not let be larger, over IPv6 20 less; 0: any

	Up, Down uint64 // bit/s of IP packets from and to the subscriber; 0: no limit

	WalledGarden bool // only to and from the Garden prefixes of its Access
	Blocked      bool // only PPP control passes: while the peer is authenticated again
	Trusted      bool // sources are not looked at: the other end is a server, and this side its client or LAC
	Sequence     bool // data carries sequence numbers (RFC 2661 section 5.4)
	Numbered     bool // so does what comes from a server (Trusted); a change is left to the daemon
	NoAddress    bool // PPP address and control are left out (ACFC was agreed)
	ShortType    bool // PPP protocol numbers are one byte (PFC was agreed)
	Capture      bool // each packet is copied to the readers of captures

	// First is the number of its next data message, for one that is not there yet.
	First uint16

	// Onward is the session by which frames of this one go on, as they are, and
	// theirs come back: of the two one is a subscriber's, the other Trusted. 0: none.
	SwitchedTo uint16
}

// LNSCapture is a packet of a session, copied for a capture.
type LNSCapture struct {
	At      time.Time
	Session uint16
	Up      bool   // from the subscriber
	Length  int    // of the packet
	PPP     bool   // it is a frame of PPP, else the IP packet in one
	Bytes   []byte // its beginning, or all of it
}

// SubscriberDrop says why packets of a session were dropped.
type SubscriberDrop int

func (d SubscriberDrop) String() string {
	names := subscriberDropNames()
	if d < 0 || int(d) >= len(names) {
		return "unknown"
	}
	return names[d]
}

// LNSCounters is what a session has carried since it was put. Bytes are
// those of IP packets. Seen is when the last data packet from the subscriber,
// or to it, passed: time since boot (CLOCK_MONOTONIC); 0 is never.
type LNSCounters struct {
	Local              uint16
	UpPackets, UpBytes uint64
	DownPackets        uint64
	DownBytes          uint64
	Drops              [SubscriberDrops]uint64
	SeenUp, SeenDown   time.Duration
	Uncaptured         uint64 // packets of a captured session that could not be copied
}

// LNSTables is what the programs know of subscribers at one moment.
type LNSTables struct {
	LNSes    []LNS         `json:"lnses"`
	Tunnels  []L2TPTunnel  `json:"tunnels"`
	Sessions []L2TPSession `json:"sessions"`
}
