package subscriber

import (
	"slices"
	"time"

	"weft/internal/addresspool"
	"weft/internal/ppp"
)

// updateServer applies new settings of a section while its sessions continue. Values
// that sessions have from the section, or from the users of the file, change: rates,
// walled garden, time limits. Values that a CoA request or RADIUS has set stay. Hosts
// get advertisements with changed name servers and translators.
func (e *Engine) updateServer(srv *server, n ServerSettings) {
	old := &server{ServerSettings: srv.ServerSettings, users: srv.users}
	notified := !slices.Equal(old.DNS, n.DNS) || !slices.Equal(old.PREF64, n.PREF64) || old.Portal != n.Portal
	srv.update(n)
	for _, t := range e.tunnels() {
		if t.server == srv {
			t.SetHello(n.Hello)
		}
	}
	for _, s := range e.sessions {
		if s.tunnel.server != srv || !s.up() || s.link == nil {
			continue
		}
		if notified && s.link.IPV6CP() == ppp.StateOpened {
			// soon, but not all at once (RFC 4861 section 6.2.4)
			s.adverts, s.advertAt = 0, e.clock.Now().Add(e.upTo(advertSoon))
			e.clock.Arm(s)
		}
		if s.given != (addresspool.Lease{}) || s.online {
			s.updateLimits(old.limits(s.login), srv.limits(s.login))
		}
	}
}

// advertSoon is the time within which all hosts get a change.
const advertSoon = 10 * time.Second

// limits are what a login has by the file.
func (s *server) limits(login string) Profile {
	var p Profile
	if u := s.users[login]; u != nil {
		p = u.Profile
	}
	return s.withDefaults(p)
}

// withDefaults puts the section's values where a profile leaves them open.
func (s *server) withDefaults(p Profile) Profile {
	d := s.Default
	p.Up, p.Down = orElse(p.Up, d.Up), orElse(p.Down, d.Down)
	p.SessionTimeout, p.IdleTimeout, p.Interim = orElse(p.SessionTimeout, d.SessionTimeout), orElse(p.IdleTimeout, d.IdleTimeout), orElse(p.Interim, d.Interim)
	return p
}

func (s *session) updateLimits(was, is Profile) {
	var c Change
	if was.Up != is.Up && s.profile.Up == was.Up {
		c.Up = &is.Up
	}
	if was.Down != is.Down && s.profile.Down == was.Down {
		c.Down = &is.Down
	}
	if was.WalledGarden != is.WalledGarden && s.profile.WalledGarden == was.WalledGarden {
		c.WalledGarden = &is.WalledGarden
	}
	if was.SessionTimeout != is.SessionTimeout && s.profile.SessionTimeout == was.SessionTimeout {
		c.SessionTimeout = &is.SessionTimeout
	}
	if was.IdleTimeout != is.IdleTimeout && s.profile.IdleTimeout == was.IdleTimeout {
		c.IdleTimeout = &is.IdleTimeout
	}
	if was.Interim != is.Interim && s.profile.Interim == was.Interim {
		c.Interim = &is.Interim
	}
	if c != (Change{}) {
		s.change(c)
	}
}

// PutAgain puts all sessions that forward packets into the next SessionDelta.
func (e *Engine) PutAgain() {
	for id, s := range e.sessions {
		if s.up() && s.carried() {
			e.pending.sessions[id] = true
		}
	}
}
