package access

import (
	"time"

	"weft/internal/dhcp6client"
	"weft/internal/ppp"
	"weft/internal/timer"
	"weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// sessionState is that of a call (RFC 2661 sections 7.4 and 7.5).
type sessionState uint8

const (
	sessionWaitReply   sessionState = iota // client: ICRQ is sent
	sessionWaitConnect                     // server: ICRP is sent
	sessionUp
	sessionGone
)

// session is one call, and the PPP link in it.
type session struct {
	engine   *Engine
	tunnel   *tunnel
	local    uint16
	remote   uint16
	state    sessionState
	link     *ppp.Link
	call     Call
	sequence bool   // data carries sequence numbers
	required bool   // whatever the server does (Sequencing Required)
	heard    bool   // what comes from the server carries them
	ns       uint16 // of the next
	since    time.Time
	deadline time.Time
	slot     timer.Slot

	// Who it is; server only.
	id       string
	question uint64 // open
	login    string
	profile  Profile
	given    lease // out of the section's pools
	online   bool  // accounting was told
	endsAt   time.Time
	interim  time.Time
	advertAt time.Time
	adverts  int
	v6       *dhcp6client.Client // client only
	slow     Traffic
	up, down limiter
	seen     uint64 // packets from the subscriber, and when there were more
	seenAt   time.Time
	onward   Onward // where it goes on to, if its server is not zero
	shown    ppp.Credentials
	pair     *session // the other side of one that goes on
	refused  string   // what was said to the subscriber
	line     *LineErrors
	accm     uint32 // that the LAC knows to send with
	history  history
	watch    func(Frame) // nil: nobody does
}

func (s *session) Slot() *timer.Slot { return &s.slot }

func (s *session) Due() time.Time {
	d := timer.Earliest(s.deadline, s.endsAt, s.interim, s.advertAt)
	if s.link != nil {
		d = timer.Earliest(d, s.link.Due())
	}
	if s.v6 != nil {
		d = timer.Earliest(d, s.v6.Due())
	}
	return d
}

func (s *session) Tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) && s.state != sessionGone }
	if reached(s.deadline) {
		s.close(l2tp.Result{Code: l2tp.CallTimeout, Text: "the call was not set up in time"}, ReasonTimeout, "the call was not set up in time")
	}
	if s.link != nil && s.state != sessionGone {
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
	if s.v6 != nil && s.state != sessionGone {
		s.v6.Tick(now)
	}
	if s.state != sessionGone {
		s.engine.clock.Arm(s)
	}
}

// called is a server's: a LAC has a subscriber (ICRQ).
func (t *tunnel) called(m *l2tp.Message) {
	e := t.engine
	remote, ok := m.Uint16(l2tp.AssignedSessionID)
	refuse := func(r l2tp.Result) { t.refuseCall(remote, r) }
	switch {
	case t.state != tunnelUp || t.server == nil:
		refuse(l2tp.Result{Code: l2tp.CallNever, Text: "calls are not taken here"})
		return
	case !ok || remote == 0:
		refuse(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorValue})
		return
	}
	t.callAgain(remote)
	switch {
	case t.server.MaxSessions > 0 && t.server.count >= t.server.MaxSessions:
		refuse(l2tp.Result{Code: l2tp.CallNoFacilities, Text: "all sessions are in use"})
		return
	}
	s := e.newSession(t, sessionWaitConnect)
	if s == nil {
		refuse(l2tp.Result{Code: l2tp.CallNoFacilities, Text: "all sessions are in use"})
		return
	}
	s.remote = remote
	t.callIs(remote, s)
	t.server.count++
	s.call = Call{
		Calling: m.Text(l2tp.CallingNumber), Called: m.Text(l2tp.CalledNumber), LAC: t.peer, LNS: t.here,
		LACName: t.lac,
	}
	s.call.Serial, _ = m.Uint32(l2tp.CallSerialNumber)
	s.history.l2tp(false, m, e.clock.Now())
	s.push(l2tp.New(l2tp.ICRP).AddUint16(l2tp.AssignedSessionID, s.local))
	e.clock.Arm(s)
}

func (e *Engine) newSession(t *tunnel, st sessionState) *session {
	local, ok := freeID(&e.nextS, e.sessions, e.leaving.sessions)
	if !ok {
		return nil
	}
	s := &session{engine: e, tunnel: t, local: local, state: st, since: e.clock.Now(), deadline: e.clock.Now().Add(handshakeTime), id: e.identity(), accm: ppp.DefaultACCM}
	e.sessions[local], t.sessions[local] = s, s
	return s
}

// push sends a message about this session.
func (s *session) push(m *l2tp.Message) {
	s.history.l2tp(true, m, s.engine.clock.Now())
	s.tunnel.push(s.remote, m)
}

// handle takes a message about this session.
func (s *session) handle(m *l2tp.Message) {
	s.history.l2tp(false, m, s.engine.clock.Now())
	switch {
	case m.Type == l2tp.CDN:
		s.finish(ReasonPeer, "the peer ended the call: "+m.Why())
	case m.Type == l2tp.ICCN && s.state == sessionWaitConnect:
		s.connected(m)
	case m.Type == l2tp.ICRP && s.state == sessionWaitReply && s.tunnel.onward != nil:
		s.onwardTaken(m)
	case m.Type == l2tp.ICRP && s.state == sessionWaitReply:
		s.replied(m)
	case m.Type == l2tp.WEN:
		s.lineErrors(m)
		s.tellOther(m, l2tp.CallErrors)
	case m.Type == l2tp.SLI:
		// the ACCM is for lines with characters: there are none here, but
		// there may be where the session comes from
		s.tellOther(m, l2tp.ACCM)
	default:
		s.close(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorNone, Text: m.Type.String() + " is out of order"}, ReasonError, m.Type.String()+" is out of order")
	}
}

// connected is a server's: the call stands, PPP begins.
func (s *session) connected(m *l2tp.Message) {
	srv := s.tunnel.server
	s.call.Tx, _ = m.Uint32(l2tp.TxConnectSpeed)
	s.call.Rx, _ = m.Uint32(l2tp.RxConnectSpeed)
	s.call.Group = m.Text(l2tp.PrivateGroupID)
	s.sequence = m.Has(l2tp.SequencingRequired)
	s.begin(ppp.Config{
		Server: true, Name: srv.HostName, MRU: srv.MRU, Auth: srv.Methods, Echo: srv.Echo, Random: s.engine.random,
		IPv4: true, IPv6: true, InterfaceID: [8]byte{7: 1},
	})
	if !s.proxied(m) {
		s.link.Start(s.engine.clock.Now())
	}
}

func (s *session) begin(c ppp.Config) {
	s.state, s.deadline = sessionUp, time.Time{}
	s.link = ppp.New(c, linkCarrier{s})
	s.engine.clock.Arm(s)
}

// access gives the number that the datapath knows the section by.
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
	s.engine.pending.stored.sessions[s.local] = true
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

// passes tells whether the programs let packets of a network protocol pass.
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
}

func (s *session) account(kind AccountKind, why Reason) {
	if s.tunnel.server == nil {
		return
	}
	e := s.engine
	e.pending.accounts = append(e.pending.accounts, &Account{
		Kind: kind, Access: s.tunnel.server.Name, Session: s.local, ID: s.id, Login: s.login, Call: s.call,
		Local: s.tunnel.server.users[s.login] != nil, Profile: s.assigned(), Started: s.since, At: e.clock.Now(), Reason: why, Slow: s.slow,
	})
}

// assigned is the profile with what the pools gave.
func (s *session) assigned() Profile {
	p := s.profile
	p.IPv4, p.Prefix, p.Delegated = s.given.ipv4, s.given.prefix, s.given.delegated
	return p
}

// linkEnded: PPP is over, and so is the call.
func (s *session) linkEnded(why Reason, text string) {
	if s.state == sessionGone {
		return
	}
	code := l2tp.Result{Code: l2tp.CallAdministrative, Text: text}
	switch why {
	case ReasonLost, ReasonPeer, ReasonRequested:
		code.Code = l2tp.CallCarrierLost
	case ReasonTimeout:
		code.Code = l2tp.CallTimeout
	}
	s.close(code, why, text)
}

// hangUp ends the session politely: PPP is told, then the call is taken down.
func (s *session) hangUp(why Reason, text string) {
	if s.state == sessionGone {
		return
	}
	if s.v6 != nil {
		s.v6.Release()
	}
	if s.link != nil {
		s.link.Close(s.engine.clock.Now())
	}
	s.close(l2tp.Result{Code: l2tp.CallAdministrative, Text: text}, why, text)
}

// close takes the call down (CDN).
func (s *session) close(r l2tp.Result, why Reason, text string) {
	if s.state == sessionGone {
		return
	}
	t := s.tunnel
	if t.state == tunnelUp {
		s.push(l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, s.local))
	}
	s.finish(why, text)
	if t.state != tunnelClosing {
		t.flush()
	}
}

// finish forgets the session.
func (s *session) finish(why Reason, text string) {
	if s.state == sessionGone {
		return
	}
	e, t := s.engine, s.tunnel
	s.state = sessionGone
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
	}
	e.clock.Disarm(s)
	delete(e.sessions, s.local)
	delete(t.sessions, s.local)
	t.callOver(s)
	delete(e.pending.sessions, s.local)
	e.pending.goneSs = append(e.pending.goneSs, s.local)
	e.leaving.sessions[s.local] = true
	e.pending.stored.sessions[s.local] = false
	if srv := t.server; srv != nil {
		srv.count--
		srv.release(s)
	}
	s.part(why, text)
	if c := t.client; c != nil {
		c.sessionDown(s, why, text)
	}
}
