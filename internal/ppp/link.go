// Package ppp is one end of a PPP link: LCP and the option negotiation automaton (RFC 1661),
// PAP (RFC 1334), CHAP (RFC 1994) and MS-CHAPv2 (RFC 2759), IPCP (RFC 1332, RFC 1877) and
// IPV6CP (RFC 5072). It knows neither what carries the frames (L2TP, PPPoE) nor who a peer
// is: a Link is fed frames, answers and the time, and its Carrier sends and decides.
package ppp

import (
	"encoding/binary"
	"time"

	"weft/internal/timer"
	"weft/wire/ppp"
)

// Config says how one end of a PPP link behaves.
type Config struct {
	Server      bool // it authenticates the peer and assigns addresses
	Name        string
	MRU         int
	Auth        []Method // server: what it asks for, in order; client: what it agrees to
	Echo        time.Duration
	Login       string // client
	Password    string // client
	IPv4        bool
	IPv6        bool
	InterfaceID [8]byte // its own; zero: it makes one up
	Random      func([]byte)
}

// Carrier is what a link runs over and in. Calls come while the link works; only Accept
// and Reject may be called from within Authenticate, and Abandon from within any.
type Carrier interface {
	// SendFrame sends a frame to the peer.
	SendFrame(protocol ppp.Protocol, information []byte)
	// Authenticate asks who the peer is; the answer comes by Link.Accept or Link.Reject.
	Authenticate(Credentials)
	// Event says what has become of the link.
	Event(Event)
}

// Event is one of NetworkChanged, NetworkAgreed, CharacterMaps and Ended.
type Event any

// NetworkChanged says that IPCP or IPV6CP came up or went down.
type NetworkChanged struct{}

// NetworkAgreed says that IPCP or IPV6CP has agreed to what the peer asks for.
type NetworkAgreed struct{}

// CharacterMaps says which characters LCP wants escaped (ACCM), in frames that are sent to
// the peer and that come from it.
type CharacterMaps struct{ Send, Receive uint32 }

// Ended says why the link is over.
type Ended struct {
	Reason Reason
	Text   string
}

// Reason says why a link is over.
type Reason string

const (
	ReasonRequested Reason = "requested" // this side closed it
	ReasonPeer      Reason = "peer"      // the peer ended it
	ReasonTimeout   Reason = "no-answer" // no answer in time
	ReasonLost      Reason = "lost"      // echo requests are not answered
	ReasonError     Reason = "error"     // the link is looped back
	ReasonRefused   Reason = "refused"   // authentication failed
)

// Link is one end of a PPP link (RFC 1661). It is pure.
type Link struct {
	Config
	carrier Carrier
	now     time.Time // that it was fed last
	lcp     lcp
	auth    authenticator
	v4      ipcp
	v6      ipv6cp

	ended    bool
	deadline time.Time // for authentication as a whole
	echoAt   time.Time
	missing  int // echo requests without reply
	echoID   uint8
	rejectID uint8
}

// New makes a link; Start begins to negotiate.
func New(c Config, carrier Carrier) *Link {
	l := newLink(c, carrier)
	if l.v6.local = c.InterfaceID; c.InterfaceID == ([8]byte{}) {
		l.v6.local = l.v6.another()
	}
	return l
}

func newLink(c Config, carrier Carrier) *Link {
	l := &Link{Config: c, carrier: carrier}
	l.lcp = lcp{link: l, peerMRU: 1500, accm: DefaultACCM}
	l.lcp.automaton = automaton{options: &l.lcp, send: l.sender(ppp.LCP)}
	l.lcp.methods = c.Auth
	l.lcp.magic = l.randomMagic()
	l.auth.link = l
	l.v4 = ipcp{link: l}
	l.v4.automaton = automaton{options: &l.v4, send: l.sender(ppp.IPCP)}
	l.v6 = ipv6cp{link: l}
	l.v6.automaton = automaton{options: &l.v6, send: l.sender(ppp.IPV6CP)}
	return l
}

func (l *Link) randomMagic() uint32 {
	var b [4]byte
	for {
		l.Random(b[:])
		if n := binary.BigEndian.Uint32(b[:]); n != 0 {
			return n
		}
	}
}

func (l *Link) sender(protocol ppp.Protocol) func(ppp.Packet) {
	return func(p ppp.Packet) { l.carrier.SendFrame(protocol, p.Marshal()) }
}

// Start begins to negotiate LCP.
func (l *Link) Start(now time.Time) {
	l.now = now
	l.deadline = now.Add(authTime)
	l.lcp.open(now)
}

// authTime is how long a peer may take until it is known who it is.
const authTime = time.Minute

// Receive takes a frame that is not data of a network protocol that is up.
func (l *Link) Receive(protocol ppp.Protocol, b []byte, now time.Time) {
	l.now = now
	if l.ended {
		return
	}
	switch protocol {
	case ppp.LCP:
		if p, err := ppp.ParsePacket(b); err == nil {
			l.receiveLCP(p, now)
		}
	case ppp.PAP, ppp.CHAP:
		if p, err := ppp.ParsePacket(b); err == nil && l.lcp.state == StateOpened {
			l.auth.receive(protocol, p, now)
		}
	case ppp.IPCP, ppp.IPV6CP:
		l.receiveNetwork(protocol, b, now)
	case ppp.IPv4, ppp.IPv6:
		if wanted := protocol == ppp.IPv4 && l.IPv4 || protocol == ppp.IPv6 && l.IPv6; !wanted {
			l.rejectProtocol(protocol, b)
		}
	default:
		l.rejectProtocol(protocol, b)
	}
}

func (l *Link) receiveNetwork(protocol ppp.Protocol, b []byte, now time.Time) {
	if l.lcp.state != StateOpened || !l.auth.done {
		return // not yet (RFC 1661 section 3.4)
	}
	p, err := ppp.ParsePacket(b)
	if err != nil {
		return
	}
	a, wanted := &l.v4.automaton, l.IPv4
	if protocol == ppp.IPV6CP {
		a, wanted = &l.v6.automaton, l.IPv6
	}
	if !wanted {
		l.rejectProtocol(protocol, b)
		return
	}
	if p.Code < 1 || p.Code > ppp.CodeReject {
		a.send(ppp.Packet{Code: ppp.CodeReject, ID: l.nextReject(), Data: cut(p.Marshal(), l.lcp.peerMRU-4)})
		return
	}
	a.receive(p, now)
}

func (l *Link) nextReject() uint8 {
	l.rejectID++
	return l.rejectID
}

func cut(b []byte, n int) []byte { return b[:min(len(b), max(n, 0))] }

// rejectProtocol says that a protocol is not known here (RFC 1661 section 5.7).
func (l *Link) rejectProtocol(protocol ppp.Protocol, b []byte) {
	if l.lcp.state != StateOpened || protocol&0x8000 == 0 && protocol != ppp.IPv4 && protocol != ppp.IPv6 && protocol < 0x4000 && protocol>>8 != 0 {
		return
	}
	data := append([]byte{byte(protocol >> 8), byte(protocol)}, b...)
	l.lcp.send(ppp.Packet{Code: ppp.ProtocolReject, ID: l.nextReject(), Data: cut(data, l.lcp.peerMRU-4)})
}

func (l *Link) receiveLCP(p ppp.Packet, now time.Time) {
	if p.Code == ppp.CodeReject && len(p.Data) > 0 && ppp.Code(p.Data[0]) == ppp.EchoRequest {
		l.missing = 0 // it is there, but knows no echo
	}
	if p.Code >= 1 && p.Code <= ppp.CodeReject {
		l.lcp.receive(p, now)
		return
	}
	opened := l.lcp.state == StateOpened
	switch p.Code {
	case ppp.ProtocolReject:
		if opened && len(p.Data) >= 2 {
			l.protocolRejected(ppp.Protocol(binary.BigEndian.Uint16(p.Data)))
		}
	case ppp.EchoRequest:
		if opened && len(p.Data) >= 4 {
			reply := append(binary.BigEndian.AppendUint32(nil, l.lcp.ourMagic()), p.Data[4:]...)
			l.lcp.send(ppp.Packet{Code: ppp.EchoReply, ID: p.ID, Data: reply})
		}
	case ppp.EchoReply:
		if opened {
			l.missing = 0
		}
	case ppp.DiscardRequest, ppp.Identification, ppp.TimeRemaining:
	default:
		l.lcp.send(ppp.Packet{Code: ppp.CodeReject, ID: l.nextReject(), Data: cut(p.Marshal(), l.lcp.peerMRU-4)})
	}
}

// protocolRejected ends what the peer does not know. The link goes on, as long
// as it is no protocol that it cannot do without.
func (l *Link) protocolRejected(p ppp.Protocol) {
	switch p {
	case ppp.IPCP, ppp.IPv4:
		l.v4.giveUp()
	case ppp.IPV6CP, ppp.IPv6:
		l.v6.giveUp()
	case ppp.LCP, ppp.PAP, ppp.CHAP:
		l.end(ReasonPeer, "the peer rejects "+p.String())
	}
}

// authenticated goes on to the network protocols.
func (l *Link) authenticated(now time.Time) {
	l.auth.done = true
	l.deadline = time.Time{}
	l.echoAt = now.Add(l.Echo)
	if l.IPv4 {
		l.v4.open(now)
	}
	if l.IPv6 {
		l.v6.open(now)
	}
}

// Close ends the link with a Terminate-Request.
func (l *Link) Close(now time.Time) {
	l.now = now
	if !l.ended {
		l.lcp.close(now)
	}
}

// Abandon ends the link at once: nothing is sent or received any more.
func (l *Link) Abandon() { l.ended = true }

func (l *Link) end(r Reason, text string) {
	if !l.ended {
		l.ended = true
		l.carrier.Event(Ended{r, text})
	}
}

// Due is when Tick has something to do; zero: never.
func (l *Link) Due() time.Time {
	if l.ended {
		return time.Time{}
	}
	d := timer.Earliest(l.lcp.due(), l.auth.due(), l.v4.due(), l.v6.due(), l.deadline)
	if l.Echo > 0 && l.auth.done {
		d = timer.Earliest(d, l.echoAt)
	}
	return d
}

// Tick does what is due.
func (l *Link) Tick(now time.Time) {
	l.now = now
	if l.ended {
		return
	}
	l.lcp.tick(now)
	l.auth.tick(now)
	l.v4.tick(now)
	l.v6.tick(now)
	if !l.deadline.IsZero() && !now.Before(l.deadline) && !l.ended {
		l.deadline = time.Time{}
		l.end(ReasonTimeout, "the peer did not say who it is in time")
	}
	if l.Echo > 0 && l.auth.done && !now.Before(l.echoAt) && !l.ended {
		l.sendEcho(now)
	}
}

func (l *Link) sendEcho(now time.Time) {
	l.echoAt = now.Add(l.Echo)
	if l.lcp.state != StateOpened {
		return
	}
	if l.missing >= echoesMissing {
		l.end(ReasonLost, "the peer does not answer echo requests")
		return
	}
	l.missing++
	l.echoID++
	l.lcp.send(ppp.Packet{Code: ppp.EchoRequest, ID: l.echoID, Data: binary.BigEndian.AppendUint32(nil, l.lcp.ourMagic())})
}
