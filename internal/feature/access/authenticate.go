package access

import (
	"bytes"
	"time"

	"weft/wire/ppp"
)

// Credentials are what a peer showed, for whoever decides.
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
	link   *link
	method Method
	done   bool

	running   bool
	asked     bool   // the question is with whoever decides
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
	case l.server && m == "":
		a.asked = true
		l.owner.authenticate(Credentials{})
	case l.server && m != MethodPAP:
		a.challenge = make([]byte, 16)
		l.random(a.challenge)
		a.step(now)
	case l.server:
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
	if l.server {
		if a.id == 0 {
			var b [1]byte
			l.random(b[:])
			a.id = b[0] | 1
		}
		l.owner.sendFrame(ppp.CHAP, ppp.Packet{Code: ppp.CHAPChallenge, ID: a.id, Data: ppp.MarshalCHAP(a.challenge, l.name)}.Marshal())
		return
	}
	a.id++
	l.owner.sendFrame(ppp.PAP, ppp.Packet{Code: ppp.PAPRequest, ID: a.id, Data: ppp.MarshalPAP(l.login, l.password)}.Marshal())
}

func (a *authenticator) receive(protocol ppp.Protocol, p ppp.Packet, now time.Time) {
	want := ppp.CHAP
	if a.method == MethodPAP {
		want = ppp.PAP
	}
	if protocol != want || a.method == "" {
		return
	}
	if a.link.server {
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
		a.link.owner.sendFrame(protocol, a.answer) // it was lost on its way
		return
	}
	if a.asked || !a.running {
		if again {
			a.answerTo = p.ID // whoever decides takes longer than the peer waits
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
	a.deadline = time.Time{} // whoever decides has the time that the link gives
	a.link.owner.authenticate(c)
}

// verdict is the answer to authenticate. text goes to the peer.
func (l *link) verdict(accepted bool, text string, now time.Time) {
	a := &l.auth
	if !a.asked || !a.running || l.ended {
		return
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
		l.owner.sendFrame(a.answerPro, a.answer)
	}
	if accepted {
		l.authenticated(now)
		return
	}
	l.deadline = now.Add(restartTime)
	l.lcp.close(now)
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
		a.link.end(ReasonRefused, "the server refuses login and password"+said(p.Data[min(1, len(p.Data)):]))
	}
}

func said(b []byte) string {
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
		response := ppp.CHAPDigest(p.ID, []byte(l.password), value)
		if a.method == MethodMSCHAPv2 {
			if response, err = a.mschap(value); err != nil {
				return
			}
		}
		a.id = p.ID
		l.owner.sendFrame(ppp.CHAP, ppp.Packet{Code: ppp.CHAPResponse, ID: p.ID, Data: ppp.MarshalCHAP(response, l.login)}.Marshal())
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
			l.end(ReasonRefused, "the server refuses login and password"+said(p.Data))
		}
	}
}

func (a *authenticator) mschap(challenge []byte) ([]byte, error) {
	l := a.link
	a.challenge, a.peer = bytes.Clone(challenge), make([]byte, 16)
	l.random(a.peer)
	var err error
	if a.nt, err = ppp.MSCHAPv2NT(challenge, a.peer, l.login, l.password); err != nil {
		return nil, err
	}
	return ppp.MSCHAPv2Response{PeerChallenge: a.peer, NTResponse: a.nt}.Marshal(), nil
}

// serverKnows checks the authenticator's own proof (RFC 2759 section 5).
func (a *authenticator) serverKnows(message []byte) bool {
	want, err := ppp.MSCHAPv2Authenticator(a.challenge, a.peer, a.nt, a.link.login, a.link.password)
	return err == nil && len(message) >= len(want) && string(message[:len(want)]) == want
}
