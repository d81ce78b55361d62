package state

import (
	"fmt"
	"net/netip"
	"strings"
)

// Wire is the device of a pseudowire: a veth pair that weft creates and owns. Users
// see the one end; at the other, hidden end the programs encapsulate frames and
// deliver those that they have decapsulated.
type PseudowireDevice struct {
	Name, Hidden string
	MAC          [6]byte // of the end that people use
	MTU          int
	Owner        string // section of weft.toml that it serves; kept as the link's alias
	Segments     bool   // GSO packets stay whole
	Sums         bool   // checksums are left to the last sender
	LinkLocal    bool   // it has an IPv6 link-local address
	Bypass       bool   // routed packets may go past it
}

func (w PseudowireDevice) Key() string    { return "pseudowire-device " + w.Name }
func (w PseudowireDevice) Domain() Domain { return Kernel }
func (w PseudowireDevice) String() string {
	s := fmt.Sprintf("pseudowire-device %s hidden end %s mtu %d for %s", w.Name, w.Hidden, w.MTU, w.Owner)
	for _, flag := range []struct {
		set  bool
		text string
	}{{w.Segments, " segments"}, {w.Sums, " sums"}, {w.LinkLocal, " link-local"}, {w.Bypass, " bypass"}} {
		if flag.set {
			s += flag.text
		}
	}
	return s
}

// VXLAN is the kernel's own device to one other host (RFC 7348).
type VXLAN struct {
	Name          string
	MAC           [6]byte
	MTU           int
	Owner         string
	VNI           uint32
	Local, Remote netip.Addr
	Port          uint16
	TTL           int // 0: that of the frame
	TOS           int // -1: that of the frame
	DF            bool
	LinkLocal     bool
}

func (v VXLAN) Key() string    { return "pseudowire-device " + v.Name }
func (v VXLAN) Domain() Domain { return Kernel }
func (v VXLAN) String() string {
	return fmt.Sprintf("wire %s vxlan %d local %s remote %s port %d ttl %d tos %d df %v mtu %d link-local %v for %s",
		v.Name, v.VNI, v.Local, v.Remote, v.Port, v.TTL, v.TOS, v.DF, v.MTU, v.LinkLocal, v.Owner)
}

// VXLANCount are the kernel's counters of a VXLAN device of weft's.
type VXLANCount struct {
	VXLAN
	RxPackets, RxBytes, TxPackets, TxBytes uint64
	Faults                                 map[string]uint64 // what is not zero
}

// PseudowireKind is a pseudowire's encapsulation.
type PseudowireKind uint8

func (k PseudowireKind) String() string {
	names := [...]string{"none", "l2tpv3-udp", "l2tpv3-ip", "gretap", "gretap-key"}
	return names[min(int(k), len(names)-1)]
}

// Pair are the two endpoint hosts of a pseudowire.
type Endpoints struct {
	Local, Remote netip.Addr
}

func (p Endpoints) String() string { return fmt.Sprintf("%s > %s", p.Local, p.Remote) }

// Pseudowire is the encapsulation of a Wire's frames, and the key of its packets.
type Pseudowire struct {
	Device string // the end that people use
	Hidden int    // index of the hidden end
	Peer   int    // index of the other
	Kind   PseudowireKind
	Endpoints
	LocalPort, RemotePort uint16
	RxID, TxID            uint32 // session, or GRE key
	RxCookie, TxCookie    string // raw bytes: 0, 4 or 8
	Counter               bool   // L2TPv3: a counter before the frame
	Pinned                bool   // which stays zero
	Sequence              bool   // it says the order, and is looked at
	Checksum              bool   // of GRE, or of UDP over IPv6
	TTL                   int    // 0: that of the frame
	TOS                   int    // -1: that of the frame
	DF                    bool
	Answer                bool // senders of packets that are too large get an ICMP error
	MTU                   int  // set by the operator; 0: what the way allows
	XDP                   bool // the hidden end can be the target of an XDP redirect
	Bypass                bool // routed packets may go past the end that people use
	Segments              bool // with the bypass: GSO packets too
	Build                 string
}

func (p Pseudowire) Key() string    { return "pseudowire " + p.Device }
func (p Pseudowire) Domain() Domain { return Datapath }
func (p Pseudowire) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "pseudowire %s %s %s", p.Device, p.Kind, p.Endpoints)
	if p.LocalPort != 0 {
		fmt.Fprintf(&s, " ports %d > %d", p.LocalPort, p.RemotePort)
	}
	fmt.Fprintf(&s, " rx %d tx %d", p.RxID, p.TxID)
	if p.RxCookie+p.TxCookie != "" {
		fmt.Fprintf(&s, " cookies %x %x", p.RxCookie, p.TxCookie)
	}
	for _, flag := range []struct {
		set  bool
		text string
	}{{p.Counter, " counter"}, {p.Pinned, " pinned"}, {p.Sequence, " sequence"}, {p.Checksum, " checksum"}, {p.DF, " df"}, {p.Answer, " answer"}, {p.XDP, " xdp"}, {p.Bypass, " bypass"}, {p.Segments, " segments"}} {
		if flag.set {
			s.WriteString(flag.text)
		}
	}
	fmt.Fprintf(&s, " ttl %d tos %d mtu %d build %s", p.TTL, p.TOS, p.MTU, p.Build)
	return s.String()
}

// PseudowirePort is a place that only pseudowires use: a UDP port for L2TPv3, or two hosts
// for a kind. Packets there that belong to none are dropped.
type PseudowirePort struct {
	Kind   PseudowireKind
	Local  netip.Addr
	Remote netip.Addr // not valid for UDP
	Port   uint16     // of UDP
}

func (p PseudowirePort) Key() string {
	if p.Kind == PseudowireL2TPUDP {
		return fmt.Sprintf("pseudowire-port %s %s", p.Kind, netip.AddrPortFrom(p.Local, p.Port))
	}
	return fmt.Sprintf("pseudowire-port %s %s", p.Kind, Endpoints{p.Local, p.Remote})
}
func (p PseudowirePort) Domain() Domain { return Datapath }
func (p PseudowirePort) String() string { return p.Key() }

// Way is the path from one host of a Pair to the other.
type PseudowirePath struct {
	Device   int
	MTU      int // of the device
	PathMTU  int // reported by a router on the path; 0: none
	Gateway  netip.Addr
	Dst, Src [6]byte
	Resolved bool // Dst is known, or not needed
	XDP      bool // the device can be the target of an XDP redirect
}
