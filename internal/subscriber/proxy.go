package subscriber

import (
	"weft/internal/l2tp"
	"weft/internal/ppp"
)

// proxied takes over what the LAC has negotiated already (RFC 2661 section 4.4.5, proxy LCP
// and authentication); false: the link begins from nothing.
func (s *session) proxied(c l2tp.Connected) bool {
	if c.LCP == nil {
		return false
	}
	ok := s.link.StartNegotiated(c.LCP.Sent, c.LCP.Received, func(method ppp.Method) (ppp.Credentials, bool) { return proxyCredentials(c.Auth, method) }, s.engine.clock.Now())
	s.accm = s.link.ACCM() // the LAC has negotiated it
	return ok
}

// proxyCredentials is what the subscriber showed the LAC; false: nothing of use.
func proxyCredentials(a *l2tp.ProxyAuth, method ppp.Method) (c ppp.Credentials, ok bool) {
	c = ppp.Credentials{Login: string(a.Name), Method: method, ID: a.ID}
	switch {
	case a.Type == l2tp.ProxyPAP && method == ppp.MethodPAP && a.Response != nil:
		c.Password = string(a.Response)
		return c, true
	case a.Type == l2tp.ProxyCHAP && method == ppp.MethodCHAP && len(a.Challenge) > 0 && len(a.Response) == 16:
		c.Challenge, c.Response = a.Challenge, a.Response
		return c, true
	}
	return ppp.Credentials{}, false
}
