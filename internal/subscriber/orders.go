package subscriber

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weft/internal/ppp"
)

// Match finds sessions: all that it says must fit.
type Match struct {
	ID      string // in accounting
	Login   string
	Address netip.Addr // any that belongs to the session
	Session uint16     // local id
	// What RADIUS may name besides (RFC 5176 section 3).
	IPv6              netip.Addr
	Prefix, Delegated netip.Prefix
	InterfaceID       [8]byte
	Calling, Called   string
	// Clients: sessions of [l2tp_client.NAME] too, by NAME in Login, by number or
	// address. An operator may mean them; RADIUS does not.
	Clients bool
}

// Empty reports whether it says nothing, and so would fit all.
func (m Match) Empty() bool {
	m.Clients = false
	return m == Match{}
}

// Change is what of a session can be changed while it lasts; nil: stays.
type Change struct {
	Up, Down       *uint64
	WalledGarden   *bool
	SessionTimeout *time.Duration // from its start
	IdleTimeout    *time.Duration
	Interim        *time.Duration
}

func (e *Engine) find(m Match) []*session {
	var list []*session
	for _, s := range e.sessions {
		if s.fits(m) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.local, b.local) })
	return list
}

// fits reports whether a session is meant.
func (s *session) fits(m Match) bool {
	if !s.up() || s.link == nil {
		return false
	}
	if c := s.tunnel.client; c != nil {
		return m.Clients && c.fits(m, s)
	}
	if s.tunnel.server == nil {
		return false
	}
	none := [8]byte{}
	return (m.ID == "" || m.ID == s.id) && (m.Login == "" || m.Login == s.login) && (m.Session == 0 || m.Session == s.local) &&
		(!m.Address.IsValid() || s.owns(m.Address)) && (!m.IPv6.IsValid() || m.IPv6 == s.profile.IPv6) &&
		(!m.Prefix.IsValid() || m.Prefix == s.given.Prefix) && (!m.Delegated.IsValid() || m.Delegated == s.given.Delegated) &&
		(m.InterfaceID == none || m.InterfaceID == s.peerID()) &&
		(m.Calling == "" || m.Calling == s.call.Calling) && (m.Called == "" || m.Called == s.call.Called)
}

// peerID is the interface identifier of the subscriber.
func (s *session) peerID() [8]byte {
	_, peer := s.link.InterfaceIDs()
	return peer
}

// fits reports whether a client's session is meant.
func (c *client) fits(m Match, s *session) bool {
	has := func(a netip.Addr) bool {
		l := c.learned
		return a == l.IPv4 || l.Delegated.IsValid() && l.Delegated.Contains(a) ||
			slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
	}
	return (m.Login == "" || c.named(m.Login)) && (m.Session == 0 || m.Session == s.local) && (!m.Address.IsValid() || has(m.Address))
}

func (c *client) named(who string) bool {
	return who == c.Name || who == "l2tp_client."+c.Name || who == c.Device
}

// Kick ends sessions, and gives how many.
func (e *Engine) Kick(m Match, now time.Time) int {
	e.clock.Set(now)
	if m.Empty() {
		return 0
	}
	list := e.find(m)
	for _, s := range list {
		s.hangUp(ReasonAdmin, "ended by the operator")
	}
	return len(list)
}

// Change changes sessions, and gives how many.
func (e *Engine) Change(m Match, c Change, now time.Time) int {
	e.clock.Set(now)
	if m.Empty() {
		return 0
	}
	list := e.find(m)
	list = slices.DeleteFunc(list, func(s *session) bool { return s.tunnel.server == nil })
	for _, s := range list {
		s.change(c)
	}
	return len(list)
}

func (s *session) change(c Change) {
	e, p := s.engine, &s.profile
	set(&p.Up, c.Up)
	set(&p.Down, c.Down)
	if c.WalledGarden != nil && *c.WalledGarden != p.WalledGarden {
		p.WalledGarden = *c.WalledGarden
		if s.tunnel.server.Portal != "" && s.link.IPV6CP() == ppp.StateOpened {
			s.adverts, s.advertAt = 0, e.clock.Now() // its hosts are to know at once
		}
	}
	set(&p.SessionTimeout, c.SessionTimeout)
	set(&p.IdleTimeout, c.IdleTimeout)
	set(&p.Interim, c.Interim)
	if c.Interim != nil && s.online {
		s.interim = time.Time{}
		if p.Interim > 0 {
			s.interim = e.clock.Now().Add(p.Interim)
		}
	}
	if c.SessionTimeout != nil {
		s.endsAt = time.Time{}
		if p.SessionTimeout > 0 {
			s.endsAt = s.since.Add(p.SessionTimeout)
		}
	}
	if s.carried() {
		e.pending.sessions[s.local] = true
		e.pending.stored[s.local] = true
	}
	e.clock.Arm(s)
}

func set[T any](v, to *T) {
	if to != nil {
		*v = *to
	}
}

// Idling returns the sessions that end if their subscriber sends nothing.
func (e *Engine) Idling() []uint16 {
	var list []uint16
	for _, s := range e.sessions {
		if s.profile.IdleTimeout > 0 && s.online {
			list = append(list, s.local)
		}
	}
	return list
}

// Silent tells for how long a subscriber has sent nothing, as the datapath saw
// it; it ends the session if that is too long.
func (e *Engine) Silent(local uint16, packets uint64, now time.Time) {
	e.clock.Set(now)
	s := e.sessions[local]
	if s == nil || !s.online || s.profile.IdleTimeout <= 0 {
		return
	}
	if packets += s.slow.UpPackets; packets != s.seen || s.seenAt.IsZero() {
		s.seen, s.seenAt = packets, now
		return
	}
	if now.Sub(s.seenAt) >= s.profile.IdleTimeout {
		s.hangUp(ReasonIdle, "nothing was sent for too long")
	}
}
