package ppp

import (
	"bytes"
	"net/netip"
	"time"

	"weft/wire/ppp"
)

// Credentials are what a peer sent to prove who it is.
type Credentials struct {
	Login  string
	Method Method // empty: none was asked for
	// PAP
	Password string
	// CHAP and MS-CHAPv2: the response's identifier, our challenge, the value
	ID        uint8
	Challenge []byte
	Response  []byte
}

// authenticator is the authentication of one link, either side.
type authenticator struct {
	link   *Link
	method Method
	done   bool

	running   bool
	asked     bool   // the carrier decides
	answer    []byte // the last answer, for a peer that missed it
	answerTo  uint8
	answerPro ppp.Protocol
	id        uint8
	challenge []byte
	peer      []byte // client, MS-CHAPv2: our challenge
	nt        []byte // client, MS-CHAPv2
	tries     int
	deadline  time.Time
}

func (a *authenticator) start(m Method, now time.Time) {
	*a = authenticator{link: a.link, method: m, running: true, tries: maxConfigure}
	l := a.link
	switch {
	case l.Server && m == "":
		a.asked = true
		l.carrier.Authenticate(Credentials{})
	case l.Server && m != MethodPAP:
		a.challenge = make([]byte, 16)
		l.Random(a.challenge)
		a.step(now)
	case l.Server:
	case m == "":
		a.running = false
		l.authenticated(now)
	case m == MethodPAP:
		a.step(now)
	}
}

func (a *authenticator) stop() { *a = authenticator{link: a.link} }

func (a *authenticator) due() time.Time {
	if !a.running {
		return time.Time{}
	}
	return a.deadline
}

func (a *authenticator) tick(now time.Time) {
	if d := a.due(); d.IsZero() || now.Before(d) {
		return
	}
	if a.tries <= 0 {
		a.deadline = time.Time{}
		a.link.end(ReasonTimeout, "the peer does not answer while authenticating")
		return
	}
	a.step(now)
}

// step sends the first message: a challenge, or a PAP request.
func (a *authenticator) step(now time.Time) {
	l := a.link
	a.tries--
	a.deadline = now.Add(restartTime)
	if l.Server {
		if a.id == 0 {
			var b [1]byte
			l.Random(b[:])
			a.id = b[0] | 1
		}
		l.carrier.SendFrame(ppp.CHAP, ppp.Packet{Code: ppp.CHAPChallenge, ID: a.id, Data: ppp.MarshalCHAP(a.challenge, l.Name)}.Marshal())
		return
	}
	a.id++
	l.carrier.SendFrame(ppp.PAP, ppp.Packet{Code: ppp.PAPRequest, ID: a.id, Data: ppp.MarshalPAP(l.Login, l.Password)}.Marshal())
}

func (a *authenticator) receive(protocol ppp.Protocol, p ppp.Packet, now time.Time) {
	want := ppp.CHAP
	if a.method == MethodPAP {
		want = ppp.PAP
	}
	if protocol != want || a.method == "" {
		return
	}
	if a.link.Server {
		a.serve(protocol, p)
		return
	}
	if protocol == ppp.PAP {
		a.papAnswered(p, now)
	} else {
		a.challenged(p, now)
	}
}

// serve takes what a peer shows.
func (a *authenticator) serve(protocol ppp.Protocol, p ppp.Packet) {
	again := protocol == ppp.PAP && p.Code == ppp.PAPRequest // each time with another number (RFC 1334 section 2.2.1)
	if a.answer != nil && protocol == a.answerPro && (again || p.ID == a.answerTo) {
		a.answer[1] = p.ID
		a.link.carrier.SendFrame(protocol, a.answer) // it was lost on its way
		return
	}
	if a.asked || !a.running {
		if again {
			a.answerTo = p.ID // the decision takes longer than the peer waits
		}
		return
	}
	c := Credentials{Method: a.method, ID: p.ID}
	switch {
	case protocol == ppp.PAP && p.Code == ppp.PAPRequest:
		login, password, err := ppp.ParsePAP(p.Data)
		if err != nil {
			return
		}
		c.Login, c.Password = string(login), string(password)
	case protocol == ppp.CHAP && p.Code == ppp.CHAPResponse && p.ID == a.id:
		value, name, err := ppp.ParseCHAP(p.Data)
		if err != nil {
			return
		}
		c.Login, c.Challenge, c.Response = string(name), a.challenge, bytes.Clone(value)
	default:
		return
	}
	a.asked, a.answerPro, a.answerTo = true, protocol, p.ID
	a.deadline = time.Time{} // the decision may take as long as the link gives
	a.link.carrier.Authenticate(c)
}

// Network is what a server gives the peer.
type Network struct {
	IPv4, IPv6  bool // what the peer may use
	Local, Peer netip.Addr
	DNS         []netip.Addr // IPv4 only
	InterfaceID [8]byte      // zero: the peer chooses its own
}

// Accept answers Carrier.Authenticate: the peer may go on. text goes to it.
func (l *Link) Accept(text string, n Network, now time.Time) {
	l.now = now
	l.IPv4, l.IPv6 = n.IPv4, n.IPv6
	l.v4.local, l.v4.peer, l.v4.dns = n.Local, n.Peer, n.DNS
	l.v6.assigned = n.InterfaceID
	if l.reply(true, text) {
		l.authenticated(now)
	}
}

// Reject answers Carrier.Authenticate: the link ends.
func (l *Link) Reject(text string, now time.Time) {
	l.now = now
	if l.reply(false, text) {
		l.deadline = now.Add(restartTime)
		l.lcp.close(now)
	}
}

// reply tells the peer what has been decided; false: nothing was asked.
func (l *Link) reply(accepted bool, text string) bool {
	a := &l.auth
	if !a.asked || !a.running || l.ended {
		return false
	}
	a.running = false
	var p ppp.Packet
	p.ID = a.answerTo
	switch a.method {
	case MethodPAP:
		p.Code, p.Data = ppp.PAPNak, ppp.MarshalText(text)
		if accepted {
			p.Code = ppp.PAPAck
		}
	case MethodCHAP, MethodMSCHAPv2:
		p.Code, p.Data = ppp.CHAPFailure, []byte(text)
		if accepted {
			p.Code = ppp.CHAPSuccess
		} else if a.method == MethodMSCHAPv2 {
			p.Data = []byte(ppp.MSCHAPv2Failure(a.challenge))
		}
	}
	if a.method != "" {
		a.answer = p.Marshal()
		l.carrier.SendFrame(a.answerPro, a.answer)
	}
	return true
}

// papAnswered is a client's.
func (a *authenticator) papAnswered(p ppp.Packet, now time.Time) {
	if !a.running || p.ID == 0 || p.ID > a.id {
		return // an answer to an earlier request is one, too: the server was slow
	}
	switch p.Code {
	case ppp.PAPAck:
		a.running = false
		a.link.authenticated(now)
	case ppp.PAPNak:
		a.running = false
		a.link.end(ReasonRefused, "the server refuses login and password"+reason(p.Data[min(1, len(p.Data)):]))
	}
}

// reason is the text that a server gives with a refusal.
func reason(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c < 0x20 || c > 0x7e {
			c = '?'
		}
		out = append(out, c)
	}
	return ": " + string(out)
}

// challenged is a client's, with CHAP. A server may ask again at any time
// (RFC 1994 section 2).
func (a *authenticator) challenged(p ppp.Packet, now time.Time) {
	l := a.link
	switch p.Code {
	case ppp.CHAPChallenge:
		value, _, err := ppp.ParseCHAP(p.Data)
		if err != nil {
			return
		}
		response := ppp.CHAPDigest(p.ID, []byte(l.Password), value)
		if a.method == MethodMSCHAPv2 {
			if response, err = a.mschap(value); err != nil {
				return
			}
		}
		a.id = p.ID
		l.carrier.SendFrame(ppp.CHAP, ppp.Packet{Code: ppp.CHAPResponse, ID: p.ID, Data: ppp.MarshalCHAP(response, l.Login)}.Marshal())
	case ppp.CHAPSuccess:
		if p.ID != a.id || a.done {
			return
		}
		if a.method == MethodMSCHAPv2 && !a.serverKnows(p.Data) {
			l.end(ReasonRefused, "the server does not know the password that it checked")
			return
		}
		a.running = false
		l.authenticated(now)
	case ppp.CHAPFailure:
		if p.ID == a.id {
			a.running = false
			l.end(ReasonRefused, "the server refuses login and password"+reason(p.Data))
		}
	}
}

func (a *authenticator) mschap(challenge []byte) ([]byte, error) {
	l := a.link
	a.challenge, a.peer = bytes.Clone(challenge), make([]byte, 16)
	l.Random(a.peer)
	var err error
	if a.nt, err = ppp.MSCHAPv2NT(challenge, a.peer, l.Login, l.Password); err != nil {
		return nil, err
	}
	return ppp.MSCHAPv2Response{PeerChallenge: a.peer, NTResponse: a.nt}.Marshal(), nil
}

// serverKnows checks the authenticator's own proof (RFC 2759 section 5).
func (a *authenticator) serverKnows(message []byte) bool {
	want, err := ppp.MSCHAPv2Authenticator(a.challenge, a.peer, a.nt, a.link.Login, a.link.Password)
	return err == nil && len(message) >= len(want) && string(message[:len(want)]) == want
}
