package access

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Match finds sessions: all that it says must fit.
type Match struct {
	ID      string // in accounting
	Login   string
	Address netip.Addr // any that belongs to the session
	Session uint16     // local id
}

// Empty tells whether it says nothing, and so would fit all.
func (m Match) Empty() bool { return m == Match{} }

// Change is what of a session can be changed while it lasts; nil: stays.
type Change struct {
	Up, Down       *uint64
	Garden         *bool
	SessionTimeout *time.Duration // from its start
	IdleTimeout    *time.Duration
}

func (e *Engine) find(m Match) []*session {
	var list []*session
	for _, s := range e.sessions {
		if s.tunnel.server == nil || s.state != sessionUp || m.ID != "" && m.ID != s.id || m.Login != "" && m.Login != s.login ||
			m.Session != 0 && m.Session != s.local || m.Address.IsValid() && !s.owns(m.Address) {
			continue
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.local, b.local) })
	return list
}

// Kick ends sessions, and gives how many.
func (e *Engine) Kick(m Match, now time.Time) int {
	e.now = now
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
	e.now = now
	if m.Empty() {
		return 0
	}
	list := e.find(m)
	for _, s := range list {
		p := &s.profile
		set(&p.Up, c.Up)
		set(&p.Down, c.Down)
		set(&p.Garden, c.Garden)
		set(&p.SessionTimeout, c.SessionTimeout)
		set(&p.IdleTimeout, c.IdleTimeout)
		if c.SessionTimeout != nil {
			s.endsAt = time.Time{}
			if p.SessionTimeout > 0 {
				s.endsAt = s.since.Add(p.SessionTimeout)
			}
		}
		e.pending.sessions[s.local] = true
		e.pending.stored.sessions[s.local] = true
		e.arm(s)
	}
	return len(list)
}

func set[T any](v, to *T) {
	if to != nil {
		*v = *to
	}
}

// Idling gives the sessions that end if their subscriber sends nothing.
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
	e.now = now
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
