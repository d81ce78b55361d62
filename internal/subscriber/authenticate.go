package subscriber

import (
	"cmp"
	"net/netip"

	"weft/internal/ppp"
	wirel2tp "weft/wire/l2tp"
)

// authenticate finds out who the peer is.
func (s *session) authenticate(c ppp.Credentials) {
	srv := s.tunnel.server
	if srv == nil {
		s.link.Reject("", s.engine.clock.Now())
		return
	}
	if to, ok := srv.switchTarget(c.Login); ok {
		s.profile = srv.withDefaults(Profile{})
		s.switchTo(c, to)
		return
	}
	if v, known := srv.local(c); known {
		s.applyReply(c, v)
		return
	}
	u := srv.users[c.Login]
	if !srv.Remote && u == nil {
		s.applyReply(c, AuthReply{Text: "Login incorrect"})
		return
	}
	s.engine.serial++
	s.question = s.engine.serial
	q := AuthRequest{LNS: srv.Name, Session: s.local, Serial: s.question, Credentials: c, Call: s.call}
	if u != nil {
		profile := u.Profile
		q.Hash, q.Profile = u.Hash, &profile
	}
	s.engine.backend.Authenticate(q)
}

// applyReply lets the subscriber in, or not.
func (s *session) applyReply(c ppp.Credentials, v AuthReply) {
	e, srv := s.engine, s.tunnel.server
	s.question = 0
	if !s.up() || s.link == nil {
		return
	}
	if v.Accept && v.Profile.SwitchTo.Server != "" {
		s.profile = srv.withDefaults(v.Profile)
		to := v.Profile.SwitchTo
		to.Name = cmp.Or(to.Name, srv.HostName)
		s.switchTo(c, to)
		return
	}
	login := cmp.Or(v.Login, wirel2tp.Printable([]byte(c.Login)))
	s.another(login)
	srv.release(s) // what it has by another login, if LCP was negotiated again
	s.login = login
	if v.Accept && !srv.resolveDuplicates(s) {
		e.stats.Duplicates++
		v = AuthReply{Text: "You are logged in already"}
	}
	if !v.Accept {
		e.stats.Rejected++
		s.refused = v.Text
		s.noteLogin(LoginRefused, v.Text)
		s.link.Reject(v.Text, e.clock.Now())
		return
	}
	if fault := srv.assign(s, v.Profile); fault != "" {
		e.stats.NoAddress++
		s.refused = fault
		s.noteLogin(LoginRefused, fault)
		s.link.Reject("No address can be assigned", e.clock.Now())
		return
	}
	e.stats.Accepted++
	s.refused = ""
	e.rewatch(s)
	s.link.Accept(v.Text, ppp.Network{
		IPv4: s.given.IPv4.IsValid(), IPv6: srv.IPv6, Local: srv.Gateway, Peer: s.given.IPv4, DNS: dnsOf(s.profile, srv, true),
		InterfaceID: s.profile.InterfaceID,
	}, e.clock.Now())
}

func dnsOf(p Profile, srv *server, v4 bool) []netip.Addr {
	list := p.DNS
	has := false
	for _, a := range list {
		has = has || a.Is4() == v4
	}
	if !has {
		list = srv.DNS
	}
	var out []netip.Addr
	for _, a := range list {
		if a.Is4() == v4 {
			out = append(out, a)
		}
	}
	return out
}
