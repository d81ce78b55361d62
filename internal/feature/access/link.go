package access

import (
	"encoding/binary"
	"net/netip"
	"time"

	"weft/wire/ppp"
)

// linkSettings say how one end of a PPP link behaves.
type linkSettings struct {
	server   bool // it authenticates the peer and assigns addresses
	name     string
	mru      int
	auth     []Method // server: what it asks for, in order; client: what it agrees to
	echo     time.Duration
	login    string // client
	password string // client
	ipv4     bool
	ipv6     bool
	random   func([]byte)
}

// linkOwner is what a link needs from its session.
type linkOwner interface {
	sendFrame(p ppp.Protocol, b []byte)
	// authenticate asks who the peer is; the answer comes by link.verdict.
	authenticate(q Credentials)
	// networkChanged says that IPCP or IPV6CP came up or went down.
	networkChanged()
	// networkAgreed says that IPCP or IPV6CP has agreed to what the peer asks for.
	networkAgreed()
	// linkInfo says which characters LCP wants escaped, in frames that are sent
	// to the peer and that come from it.
	linkInfo(send, receive uint32)
	// linkEnded says why the link is over.
	linkEnded(reason Reason, text string)
	clock() time.Time
}

// link is one end of a PPP link (RFC 1661). It is pure.
type link struct {
	linkSettings
	owner linkOwner
	lcp   lcp
	auth  authenticator
	v4    ipcp
	v6    ipv6cp

	ended    bool
	deadline time.Time // for authentication as a whole
	echoAt   time.Time
	missing  int // echo requests without reply
	echoID   uint8
	rejectID uint8
}

// newLink makes a link; start begins to talk.
func newLink(s linkSettings, owner linkOwner) *link {
	l := &link{linkSettings: s, owner: owner}
	l.lcp = lcp{link: l, peerMRU: 1500}
	l.lcp.automaton = automaton{options: &l.lcp, send: l.sender(ppp.LCP)}
	l.lcp.methods = s.auth
	l.lcp.magic = l.randomMagic()
	l.auth.link = l
	l.v4 = ipcp{link: l}
	l.v4.automaton = automaton{options: &l.v4, send: l.sender(ppp.IPCP)}
	l.v6 = ipv6cp{link: l}
	l.v6.automaton = automaton{options: &l.v6, send: l.sender(ppp.IPV6CP)}
	return l
}

func (l *link) randomMagic() uint32 {
	var b [4]byte
	for {
		l.random(b[:])
		if n := binary.BigEndian.Uint32(b[:]); n != 0 {
			return n
		}
	}
}

func (l *link) sender(protocol ppp.Protocol) func(ppp.Packet) {
	return func(p ppp.Packet) { l.owner.sendFrame(protocol, p.Marshal()) }
}

func (l *link) start(now time.Time) {
	l.deadline = now.Add(authTime)
	l.lcp.open(now)
}

// authTime is how long a peer may take until it is known who it is.
const authTime = time.Minute

// receive takes a frame that is no plain data.
func (l *link) receive(protocol ppp.Protocol, b []byte, now time.Time) {
	if l.ended {
		return
	}
	switch protocol {
	case ppp.LCP:
		if p, err := ppp.ParsePacket(b); err == nil {
			l.receiveLCP(p, now)
		}
	case ppp.PAP, ppp.CHAP:
		if p, err := ppp.ParsePacket(b); err == nil && l.lcp.state == phaseOpened {
			l.auth.receive(protocol, p, now)
		}
	case ppp.IPCP, ppp.IPV6CP:
		l.receiveNetwork(protocol, b, now)
	default:
		l.rejectProtocol(protocol, b)
	}
}

func (l *link) receiveNetwork(protocol ppp.Protocol, b []byte, now time.Time) {
	if l.lcp.state != phaseOpened || !l.auth.done {
		return // not yet (RFC 1661 section 3.4)
	}
	p, err := ppp.ParsePacket(b)
	if err != nil {
		return
	}
	a, wanted := &l.v4.automaton, l.ipv4
	if protocol == ppp.IPV6CP {
		a, wanted = &l.v6.automaton, l.ipv6
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

func (l *link) nextReject() uint8 {
	l.rejectID++
	return l.rejectID
}

func cut(b []byte, n int) []byte { return b[:min(len(b), max(n, 0))] }

// rejectProtocol says that a protocol is not known here (RFC 1661 section 5.7).
func (l *link) rejectProtocol(protocol ppp.Protocol, b []byte) {
	if l.lcp.state != phaseOpened || protocol&0x8000 == 0 && protocol != ppp.IPv4 && protocol != ppp.IPv6 && protocol < 0x4000 && protocol>>8 != 0 {
		return
	}
	data := append([]byte{byte(protocol >> 8), byte(protocol)}, b...)
	l.lcp.send(ppp.Packet{Code: ppp.ProtocolReject, ID: l.nextReject(), Data: cut(data, l.lcp.peerMRU-4)})
}

func (l *link) receiveLCP(p ppp.Packet, now time.Time) {
	if p.Code == ppp.CodeReject && len(p.Data) > 0 && ppp.Code(p.Data[0]) == ppp.EchoRequest {
		l.missing = 0 // it is there, but knows no echo
	}
	if p.Code >= 1 && p.Code <= ppp.CodeReject {
		l.lcp.receive(p, now)
		return
	}
	opened := l.lcp.state == phaseOpened
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
func (l *link) protocolRejected(p ppp.Protocol) {
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
func (l *link) authenticated(now time.Time) {
	l.auth.done = true
	l.deadline = time.Time{}
	l.echoAt = now.Add(l.echo)
	if l.ipv4 {
		l.v4.open(now)
	}
	if l.ipv6 {
		l.v6.open(now)
	}
}

// terminate closes the link politely.
func (l *link) terminate(now time.Time) {
	if !l.ended {
		l.lcp.close(now)
	}
}

func (l *link) end(r Reason, text string) {
	if !l.ended {
		l.ended = true
		l.owner.linkEnded(r, text)
	}
}

// due is when tick has something to do; zero: never.
func (l *link) due() time.Time {
	if l.ended {
		return time.Time{}
	}
	d := earliest(l.lcp.due(), l.auth.due(), l.v4.due(), l.v6.due(), l.deadline)
	if l.echo > 0 && l.auth.done {
		d = earliest(d, l.echoAt)
	}
	return d
}

// earliest gives the first of the times that are not zero.
func earliest(list ...time.Time) time.Time {
	var first time.Time
	for _, t := range list {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (l *link) tick(now time.Time) {
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
	if l.echo > 0 && l.auth.done && !now.Before(l.echoAt) && !l.ended {
		l.sendEcho(now)
	}
}

func (l *link) sendEcho(now time.Time) {
	l.echoAt = now.Add(l.echo)
	if l.lcp.state != phaseOpened {
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

// interfaceAddress is the link-local address of an interface identifier.
func interfaceAddress(id [8]byte) netip.Addr {
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], id[:])
	return netip.AddrFrom16(a)
}
