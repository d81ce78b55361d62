package access

import (
	"cmp"
	"net/netip"

	"weft/wire/l2tp"
)

// authenticate finds out who the peer is.
func (s *session) authenticate(c Credentials) {
	srv := s.tunnel.server
	if srv == nil {
		s.link.verdict(false, "", s.engine.now)
		return
	}
	if to, ok := srv.onwardFor(c.Login); ok {
		s.profile = srv.withDefaults(Profile{})
		s.sendOn(c, to)
		return
	}
	if v, known := srv.local(c); known {
		s.decide(c, v)
		return
	}
	u := srv.users[c.Login]
	if !srv.Remote && u == nil {
		s.decide(c, Verdict{Text: "Login incorrect"})
		return
	}
	s.engine.serial++
	s.question = s.engine.serial
	q := Question{Access: srv.Name, Session: s.local, Serial: s.question, Credentials: c, Call: s.call}
	if u != nil {
		profile := u.profile()
		q.Hash, q.Profile = u.Hash, &profile
	}
	s.engine.world.Ask(q)
}

// decide lets the subscriber in, or not.
func (s *session) decide(c Credentials, v Verdict) {
	e, srv := s.engine, s.tunnel.server
	s.question = 0
	if s.state != sessionUp || s.link == nil {
		return
	}
	if v.Accept && v.Profile.Onward.Server != "" {
		s.profile = srv.withDefaults(v.Profile)
		to := v.Profile.Onward
		to.Name = cmp.Or(to.Name, srv.HostName)
		s.sendOn(c, to)
		return
	}
	srv.release(s) // what it has by another login, if LCP began anew
	s.login = l2tp.Printable([]byte(c.Login))
	if v.Login != "" {
		s.login = v.Login
	}
	if v.Accept && !srv.settle(s) {
		e.stats.Duplicates++
		v = Verdict{Text: "You are logged in already"}
	}
	if !v.Accept {
		e.stats.Rejected++
		s.refused = v.Text
		s.link.verdict(false, v.Text, e.now)
		return
	}
	if fault := srv.assign(s, v.Profile); fault != "" {
		e.stats.NoAddress++
		s.refused = fault
		s.link.verdict(false, "No address is free", e.now)
		return
	}
	e.stats.Accepted++
	s.refused = ""
	e.rewatch(s)
	l := s.link
	l.ipv4 = s.given.ipv4.IsValid()
	l.ipv6 = srv.IPv6
	l.v4.local, l.v4.peer, l.v4.dns = srv.Gateway, s.given.ipv4, dnsOf(s.profile, srv, true)
	l.v6.assigned = s.profile.InterfaceID
	l.verdict(true, v.Text, e.now)
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
