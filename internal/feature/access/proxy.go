package access

import (
	"bytes"

	"weft/internal/ppp"
	"weft/wire/l2tp"
)

// proxied takes over what the LAC has negotiated already (RFC 2661 section
// 4.4.5, proxy LCP and authentication); false: the link begins from nothing.
func (s *session) proxied(m *l2tp.Message) bool {
	sent, ok1 := m.Get(l2tp.LastSentLCP)
	received, ok2 := m.Get(l2tp.LastReceivedLCP)
	if !ok1 || !ok2 {
		return false
	}
	ok := s.link.StartNegotiated(sent, received, func(method ppp.Method) (ppp.Credentials, bool) { return proxyCredentials(m, method) }, s.engine.clock.Now())
	s.accm = s.link.ACCM() // the LAC has negotiated it
	return ok
}

// Proxy authentication types (section 4.4.5).
const (
	proxyCHAP = 2
	proxyPAP  = 3
	proxyNone = 4
)

func proxyCredentials(m *l2tp.Message, method ppp.Method) (c ppp.Credentials, ok bool) {
	kind, _ := m.Uint16(l2tp.ProxyAuthenType)
	name, _ := m.Get(l2tp.ProxyAuthenName)
	response, has := m.Get(l2tp.ProxyAuthenResponse)
	id, _ := m.Uint16(l2tp.ProxyAuthenID)
	challenge, _ := m.Get(l2tp.ProxyAuthenChallenge)
	c = ppp.Credentials{Login: string(name), Method: method, ID: uint8(id)}
	switch {
	case kind == proxyPAP && method == ppp.MethodPAP && has:
		c.Password = string(response)
		return c, true
	case kind == proxyCHAP && method == ppp.MethodCHAP && len(challenge) > 0 && len(response) == 16:
		c.Challenge, c.Response = bytes.Clone(challenge), bytes.Clone(response) // the buffer is used again
		return c, true
	}
	return ppp.Credentials{}, false
}
