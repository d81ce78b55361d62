package subscriber

import (
	"time"

	"weft/internal/addresspool"
	"weft/internal/dhcp6client"
	"weft/internal/l2tp"
	"weft/internal/limit"
	"weft/internal/ppp"
	"weft/internal/subscriber/history"
	"weft/internal/timer"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// session is one call, and the PPP link in it.
type session struct {
	engine *Engine
	tunnel *tunnel
	l2tp   *l2tp.Session
	local  uint16
	link   *ppp.Link
	call   Call
	since  time.Time
	slot   timer.Slot

	// Who it is; server only.
	id               string
	question         uint64 // open
	login            string
	profile          Profile
	given            addresspool.Lease // out of the section's pools
	online           bool              // an accounting Start was made
	endsAt           time.Time
	interim          time.Time
	advertAt         time.Time
	adverts          int
	v6               *dhcp6client.Client // client only
	slow             Traffic
	base             *Traffic     // what the datapath had counted when the login changed; nil: it did not
	errors           limit.Bucket // of ICMP
	rateUp, rateDown limit.Policer
	seen             uint64 // packets from the subscriber, and when there were more
	seenAt           time.Time
	target           SwitchTarget // where it goes on to, if its server is not zero
	shown            ppp.Credentials
	pair             *session // the other side of one that goes on
	refused          string   // what was said to the subscriber
	line             *LineErrors
	accm             uint32 // that the LAC knows to send with
	history          history.Log
	watch            func(Frame) // nil: it is not captured
}

// up reports whether the call stands, gone whether it is over.
func (s *session) up() bool   { return s.l2tp.State() == l2tp.SessionUp }
func (s *session) gone() bool { return s.l2tp.State() == l2tp.SessionGone }

func (s *session) Slot() *timer.Slot { return &s.slot }

func (s *session) Due() time.Time {
	d := timer.Earliest(s.endsAt, s.interim, s.advertAt)
	if s.link != nil {
		d = timer.Earliest(d, s.link.Due())
	}
	if s.v6 != nil {
		d = timer.Earliest(d, s.v6.Due())
	}
	return d
}

func (s *session) Tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) && !s.gone() }
	if s.link != nil && !s.gone() {
		s.link.Tick(now)
	}
	if reached(s.endsAt) {
		s.hangUp(ReasonSession, "the session's time is over")
	}
	if reached(s.interim) {
		s.interim = now.Add(s.profile.Interim)
		s.account(AccountInterim, "")
	}
	if reached(s.advertAt) {
		s.advertise()
	}
	if s.v6 != nil && !s.gone() {
		s.v6.Tick(now)
	}
	if !s.gone() {
		s.engine.clock.Arm(s)
	}
}

// l2tpUser is the session as its L2TP session sees it.
type l2tpUser struct{ *session }

func (u l2tpUser) Frame(frame []byte) {
	u.receiveFrame(frame)
	u.engine.clock.Arm(u.session)
}

func (u l2tpUser) SessionEvent(e l2tp.Event) {
	s := u.session
	switch e := e.(type) {
	case l2tp.Trace:
		s.history.L2TP(e.Sent, e.Message, s.engine.clock.Now())
	case l2tp.Answered:
		if s.tunnel.toServer != nil {
			s.switchAnswered()
		} else {
			s.replied()
		}
	case l2tp.Connected:
		s.connected(e)
	case l2tp.Notified:
		if e.Type == wirel2tp.WEN {
			s.lineErrors(e.Value)
		}
		// an ACCM (SLI) is for lines with characters: there are none here, but there may
		// be where the session comes from
		s.relayNotice(e)
	case l2tp.Sequencing:
		if s.carried() {
			s.engine.pending.sessions[s.local] = true
			s.engine.pending.stored[s.local] = true
		}
	}
}

func (u l2tpUser) SessionEnded(why l2tp.Reason, text string) { u.finish(Reason(why), text) }

// connected is a server's: the call stands, PPP begins.
func (s *session) connected(c l2tp.Connected) {
	srv := s.tunnel.server
	s.call.Tx, s.call.Rx, s.call.Group = c.Tx, c.Rx, c.Group
	s.begin(ppp.Config{
		Server: true, Name: srv.HostName, MRU: srv.MRU, Auth: srv.Methods, Echo: srv.Echo, Random: s.engine.random,
		IPv4: true, IPv6: true, InterfaceID: [8]byte{7: 1},
	})
	if !s.proxied(c) {
		s.link.Start(s.engine.clock.Now())
	}
}

func (s *session) begin(c ppp.Config) {
	s.link = ppp.New(c, linkCarrier{s})
	s.engine.clock.Arm(s)
}

// access returns the number that the datapath knows the section by.
func (s *session) access() int {
	if s.tunnel.server != nil {
		return s.tunnel.server.ID
	}
	return s.tunnel.client.ID
}

// linkCarrier is the session as its PPP link sees it.
type linkCarrier struct{ *session }

func (c linkCarrier) SendFrame(p wireppp.Protocol, b []byte) { c.sendFrame(p, b) }
func (c linkCarrier) Authenticate(shown ppp.Credentials)     { c.authenticate(shown) }

func (c linkCarrier) Event(e ppp.Event) {
	switch e := e.(type) {
	case ppp.NetworkChanged:
		c.networkChanged()
	case ppp.NetworkAgreed:
		c.networkAgreed()
	case ppp.CharacterMaps:
		c.linkInfo(e.Send, e.Receive)
	case ppp.Ended:
		c.linkEnded(Reason(e.Reason), e.Text)
	}
}

// networkChanged: IPCP or IPV6CP went up or down.
func (s *session) networkChanged() {
	v4, v6 := s.link.IPCP() == ppp.StateOpened, s.link.IPV6CP() == ppp.StateOpened
	s.engine.pending.sessions[s.local] = true
	s.engine.pending.stored[s.local] = true
	if c := s.tunnel.client; c != nil {
		c.networkChanged(s, v4, v6)
		return
	}
	switch {
	case !v6:
		s.adverts, s.advertAt = 0, time.Time{}
	case s.adverts == 0 && s.advertAt.IsZero():
		s.advertAt = s.engine.clock.Now()
	}
	if v4 || v6 {
		s.begun()
	}
}

// networkAgreed: the peer has, or will have, our last word, and IPCP or IPV6CP is up
// there as soon as it has said its own. It may send right behind that, and the programs
// are to let it pass: if they know the session already the daemon does not see it. As
// long as no account has begun, nothing passes before it has.
func (s *session) networkAgreed() {
	if s.tunnel.server != nil && s.online {
		s.engine.pending.sessions[s.local] = true
	}
}

// passes reports whether the programs let packets of a network protocol pass.
func (s *session) passes(state ppp.State) bool {
	return state == ppp.StateOpened || state == ppp.StateAckSent && s.tunnel.server != nil && s.online
}

// begun: the session carries something from now on.
func (s *session) begun() {
	if s.online {
		return
	}
	s.online = true
	if s.profile.SessionTimeout > 0 {
		s.endsAt = s.engine.clock.Now().Add(s.profile.SessionTimeout)
	}
	if s.profile.Interim > 0 {
		s.interim = s.engine.clock.Now().Add(s.profile.Interim)
	}
	s.account(AccountStart, "")
	if s.tunnel.server != nil {
		s.noteLogin(LoggedIn, "")
	}
}

func (s *session) account(kind AccountKind, why Reason) {
	if s.tunnel.server == nil {
		return
	}
	e := s.engine
	e.pending.accounts = append(e.pending.accounts, &Account{
		Kind: kind, LNS: s.tunnel.server.Name, Session: s.local, ID: s.id, Login: s.login, Call: s.call,
		Local: s.tunnel.server.users[s.login] != nil, Profile: s.assigned(), Started: s.since, At: e.clock.Now(), Reason: why, Slow: s.slow, Base: s.base,
	})
}

// assigned is the profile with what the pools gave.
func (s *session) assigned() Profile {
	p := s.profile
	p.IPv4, p.Prefix, p.Delegated = s.given.IPv4, s.given.Prefix, s.given.Delegated
	return p
}

// linkEnded: PPP is over, and so is the call.
func (s *session) linkEnded(why Reason, text string) {
	if s.gone() {
		return
	}
	code := wirel2tp.Result{Code: wirel2tp.CallAdministrative, Text: text}
	switch why {
	case ReasonLost, ReasonPeer, ReasonRequested:
		code.Code = wirel2tp.CallCarrierLost
	case ReasonTimeout:
		code.Code = wirel2tp.CallTimeout
	}
	s.close(code, why, text)
}

// hangUp ends the session: it sends an LCP Terminate-Request, then a CDN.
func (s *session) hangUp(why Reason, text string) {
	if s.gone() {
		return
	}
	if s.v6 != nil {
		s.v6.Release()
	}
	if s.link != nil {
		s.link.Close(s.engine.clock.Now())
	}
	s.close(wirel2tp.Result{Code: wirel2tp.CallAdministrative, Text: text}, why, text)
}

// close takes the call down (CDN).
func (s *session) close(r wirel2tp.Result, why Reason, text string) {
	s.l2tp.Close(r, l2tp.Reason(why), text)
}

// finish forgets the session.
func (s *session) finish(why Reason, text string) {
	e, t := s.engine, s.tunnel
	if s.refused != "" {
		e.remember(s, ReasonRefused, s.refused)
	} else {
		e.remember(s, why, text)
	}
	if s.link != nil {
		s.link.Abandon()
	}
	if s.online {
		s.account(AccountStop, why)
		if t.server != nil {
			s.noteLogin(LoggedOut, text)
		}
	}
	e.clock.Disarm(s)
	delete(e.sessions, s.local)
	delete(e.pending.sessions, s.local)
	e.pending.gone = append(e.pending.gone, s.local)
	e.pending.stored[s.local] = false
	if srv := t.server; srv != nil {
		srv.count--
		srv.release(s)
	}
	s.part(why, text)
	if c := t.client; c != nil {
		c.sessionDown(s, why, text)
	}
}
