package ppp

import (
	"encoding/binary"
	"net/netip"
	"time"

	"weft/wire/ppp"
)

// StartNegotiated takes over a link whose LCP another system has negotiated with the peer:
// sent and received are the options of the last Configure-Requests. proof gives what the
// peer sent to authenticate by a method; false: it is asked again. What StartNegotiated
// cannot take over (false) has to be negotiated from the beginning, by Start.
func (l *Link) StartNegotiated(sent, received []byte, proof func(Method) (Credentials, bool), now time.Time) bool {
	l.now = now
	ours, err1 := ppp.ParseOptions(sent)
	theirs, err2 := ppp.ParseOptions(received)
	if err1 != nil || err2 != nil {
		return false
	}
	if code, _ := l.lcp.judge(theirs); code != ppp.ConfigureAck {
		return false
	}
	method, magic := Method(""), uint32(0)
	for _, o := range ours {
		switch {
		case o.Type == ppp.OptAuth:
			method = MethodOf(o.Data)
		case o.Type == ppp.OptMagic && len(o.Data) == 4:
			magic = binary.BigEndian.Uint32(o.Data)
		case o.Type != ppp.OptMRU && o.Type != ppp.OptACCM && o.Type != ppp.OptPFC && o.Type != ppp.OptACFC:
			return false // the peer may make use of what is not there: multilink
		}
	}
	if !l.open(method, magic) {
		return false
	}
	if c, ok := proof(method); ok {
		a := &l.auth
		a.asked, a.deadline, a.challenge, a.answerTo, a.id = true, time.Time{}, c.Challenge, c.ID, c.ID
		a.answerPro = ppp.CHAP
		if method == MethodPAP {
			a.answerPro = ppp.PAP
		}
		l.carrier.Authenticate(c)
		return true
	}
	l.auth.start(method, now)
	return true
}

// open opens LCP with what another system has agreed to.
func (l *Link) open(m Method, magic uint32) bool {
	allowed := len(l.lcp.methods) == 0 && m == ""
	for _, one := range l.lcp.methods {
		allowed = allowed || one == m
	}
	if !allowed {
		return false
	}
	l.lcp.state, l.lcp.method = StateOpened, m
	if l.lcp.noMagic = magic == 0; magic != 0 {
		l.lcp.magic = magic
	}
	l.deadline = l.now.Add(authTime)
	l.auth = authenticator{link: l, method: m, running: true, tries: maxConfigure}
	return true
}

// Snapshot is what a link has negotiated, for the next process.
type Snapshot struct {
	MRU     int        `json:"mru"`
	PeerMRU int        `json:"peer_mru"`
	Magic   uint32     `json:"magic"`
	Method  Method     `json:"method"`
	V4      bool       `json:"v4"`
	V6      bool       `json:"v6"`
	Local4  netip.Addr `json:"local4,omitzero"`
	Peer4   netip.Addr `json:"peer4,omitzero"`
	DNS     []string   `json:"dns,omitempty"`
	Local6  [8]byte    `json:"local6"`
	Peer6   [8]byte    `json:"peer6"`
}

// Snapshot returns what the link has negotiated.
func (l *Link) Snapshot() Snapshot {
	k := Snapshot{
		MRU: l.MRU, PeerMRU: l.lcp.peerMRU, Magic: l.lcp.magic, Method: l.lcp.method, V4: l.v4.state == StateOpened, V6: l.v6.state == StateOpened,
		Local4: l.v4.local, Peer4: l.v4.peer, Local6: l.v6.local, Peer6: l.v6.peer,
	}
	for _, a := range l.v4.dns {
		if a.IsValid() {
			k.DNS = append(k.DNS, a.String())
		}
	}
	return k
}

// Restore goes on with a link of the process before.
func Restore(k Snapshot, c Config, carrier Carrier, now time.Time) *Link {
	c.MRU = k.MRU
	l := newLink(c, carrier)
	l.now = now
	l.lcp.state, l.lcp.magic, l.lcp.noMagic, l.lcp.peerMRU, l.lcp.method = StateOpened, k.Magic, k.Magic == 0, k.PeerMRU, k.Method
	l.auth = authenticator{link: l, method: k.Method, done: true}
	l.echoAt = now.Add(l.Echo)
	set := func(a *automaton, wanted, up bool) {
		switch {
		case up:
			a.state = StateOpened
		case wanted:
			a.state = StateStopped // the peer may begin with it at any time
		}
	}
	set(&l.v4.automaton, l.IPv4, k.V4)
	set(&l.v6.automaton, l.IPv6, k.V6)
	l.v4.local, l.v4.peer, l.v6.local, l.v6.peer = k.Local4, k.Peer4, k.Local6, k.Peer6
	for _, text := range k.DNS {
		if a, err := netip.ParseAddr(text); err == nil {
			l.v4.dns = append(l.v4.dns, a)
		}
	}
	return l
}
