package ppp

import (
	"net/netip"
	"slices"
	"time"

	"weft/wire/ppp"
)

// Ended reports whether the link is over.
func (l *Link) Ended() bool { return l.ended }

// LCP, IPCP and IPV6CP give the states of the control protocols.
func (l *Link) LCP() State    { return l.lcp.state }
func (l *Link) IPCP() State   { return l.v4.state }
func (l *Link) IPV6CP() State { return l.v6.state }

// Method is how the peer authenticates, or this end does.
func (l *Link) Method() Method { return l.lcp.method }

// MTU is the largest packet that may be sent: the peer's MRU, and not more than ours.
func (l *Link) MTU() int { return min(l.lcp.peerMRU, l.MRU) }

// ACCM is the one that the peer asked for.
func (l *Link) ACCM() uint32 { return l.lcp.accm }

// Addresses returns the IPv4 addresses and name servers that IPCP has agreed on.
func (l *Link) Addresses() (local, peer netip.Addr, dns []netip.Addr) {
	return l.v4.local, l.v4.peer, slices.Clone(l.v4.dns)
}

// InterfaceIDs returns the interface identifiers that IPV6CP has agreed on.
func (l *Link) InterfaceIDs() (local, peer [8]byte) { return l.v6.local, l.v6.peer }

// LinkLocal is the link-local address of an interface identifier (RFC 5072 section 5).
func LinkLocal(id [8]byte) netip.Addr {
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], id[:])
	return netip.AddrFrom16(a)
}

// LCPOptions returns the options of LCP's Configure-Requests: that which the peer sent first
// (nil: none), and the last ones that were sent and received.
func (l *Link) LCPOptions() (initial, sent, received []byte) {
	return l.lcp.initial, ppp.MarshalOptions(l.lcp.request()), l.lcp.theirs
}

// Negotiated is what LCP has agreed on.
type Negotiated struct {
	MRU, PeerMRU     int
	Magic, PeerMagic uint32 // 0: none
	ACFC, PFC        bool   // the peer takes compressed headers
}

// Negotiated returns what LCP has agreed on.
func (l *Link) Negotiated() Negotiated {
	return Negotiated{l.lcp.ourMRU(), l.lcp.peerMRU, l.lcp.ourMagic(), l.lcp.peerMagic, l.lcp.acfc, l.lcp.pfc}
}

// Timer is something that a link waits for; a zero time: it does not.
type Timer struct {
	What string
	At   time.Time
}

// Timers returns what the link waits for.
func (l *Link) Timers() []Timer {
	list := []Timer{
		{"LCP retransmission", l.lcp.due()}, {"authentication retransmission", l.auth.due()}, {"authentication has to be done", l.deadline},
		{"IPCP retransmission", l.v4.due()}, {"IPV6CP retransmission", l.v6.due()},
	}
	if l.Echo > 0 && l.auth.done {
		list = append(list, Timer{"LCP echo", l.echoAt})
	}
	return list
}
