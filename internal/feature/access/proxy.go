package access

import (
	"bytes"
	"encoding/binary"
	"time"

	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// proxied takes over what the LAC has negotiated already (RFC 2661 section
// 4.4.5, proxy LCP and authentication); false: the link begins from nothing.
func (s *session) proxied(m *l2tp.Message) bool {
	sent, ok1 := m.Get(l2tp.LastSentLCP)
	received, ok2 := m.Get(l2tp.LastReceivedLCP)
	if !ok1 || !ok2 {
		return false
	}
	ours, err1 := ppp.ParseOptions(sent)
	theirs, err2 := ppp.ParseOptions(received)
	if err1 != nil || err2 != nil {
		return false
	}
	l := s.link
	if code, _ := l.lcp.judge(theirs); code != ppp.ConfigureAck {
		return false
	}
	s.accm = l.lcp.accm // the LAC has negotiated it
	method, magic := Method(""), uint32(0)
	for _, o := range ours {
		switch {
		case o.Type == ppp.OptAuth:
			method = methodOf(o.Data)
		case o.Type == ppp.OptMagic && len(o.Data) == 4:
			magic = binary.BigEndian.Uint32(o.Data)
		case o.Type != ppp.OptMRU && o.Type != ppp.OptACCM && o.Type != ppp.OptPFC && o.Type != ppp.OptACFC:
			return false // the subscriber may make use of what is not there: multilink
		}
	}
	if !l.adopt(method, magic) {
		return false
	}
	if c, ok := proxyCredentials(m, method); ok {
		a := &l.auth
		a.asked, a.deadline, a.challenge, a.answerTo, a.id = true, time.Time{}, c.Challenge, c.ID, c.ID
		a.answerPro = ppp.CHAP
		if method == MethodPAP {
			a.answerPro = ppp.PAP
		}
		s.authenticate(c)
		return true
	}
	l.auth.start(method, s.engine.now)
	return true
}

// adopt takes over a link that somebody else has opened for us.
func (l *link) adopt(m Method, magic uint32) bool {
	allowed := len(l.lcp.methods) == 0 && m == ""
	for _, one := range l.lcp.methods {
		allowed = allowed || one == m
	}
	if !allowed {
		return false
	}
	l.lcp.state, l.lcp.method = phaseOpened, m
	if l.lcp.noMagic = magic == 0; magic != 0 {
		l.lcp.magic = magic
	}
	l.deadline = l.owner.clock().Add(authTime)
	l.auth = authenticator{link: l, method: m, running: true, tries: maxConfigure}
	return true
}

// Proxy authentication types (section 4.4.5).
const (
	proxyCHAP = 2
	proxyPAP  = 3
	proxyNone = 4
)

func proxyCredentials(m *l2tp.Message, method Method) (c Credentials, ok bool) {
	kind, _ := m.Uint16(l2tp.ProxyAuthenType)
	name, _ := m.Get(l2tp.ProxyAuthenName)
	response, has := m.Get(l2tp.ProxyAuthenResponse)
	id, _ := m.Uint16(l2tp.ProxyAuthenID)
	challenge, _ := m.Get(l2tp.ProxyAuthenChallenge)
	c = Credentials{Login: string(name), Method: method, ID: uint8(id)}
	switch {
	case kind == proxyPAP && method == MethodPAP && has:
		c.Password = string(response)
		return c, true
	case kind == proxyCHAP && method == MethodCHAP && len(challenge) > 0 && len(response) == 16:
		c.Challenge, c.Response = bytes.Clone(challenge), bytes.Clone(response) // the buffer is used again
		return c, true
	}
	return Credentials{}, false
}
