package access

import (
	"encoding/binary"
	"net/netip"
	"time"

	"weft/internal/state"
	"weft/wire/l2tp"
	"weft/wire/ppp"
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
	link     *link
	call     Call
	sequence bool   // data carries sequence numbers
	ns       uint16 // of the next
	since    time.Time
	deadline time.Time
	timer    timer

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
	v6       *clientV6 // client only
	slow     Traffic
	seen     uint64 // packets from the subscriber, and when there were more
	seenAt   time.Time
	text     string // why it ended
}

func (s *session) slot() *timer     { return &s.timer }
func (s *session) clock() time.Time { return s.engine.now }

func (s *session) due() time.Time {
	d := earliest(s.deadline, s.endsAt, s.interim, s.advertAt)
	if s.link != nil {
		d = earliest(d, s.link.due())
	}
	if s.v6 != nil {
		d = earliest(d, s.v6.due())
	}
	return d
}

func (s *session) tick(now time.Time) {
	reached := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) && s.state != sessionGone }
	if reached(s.deadline) {
		s.close(l2tp.Result{Code: l2tp.CallTimeout, Text: "the call was not set up in time"}, ReasonTimeout, "the call was not set up in time")
	}
	if s.link != nil && s.state != sessionGone {
		s.link.tick(now)
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
		s.v6.tick(now)
	}
	if s.state != sessionGone {
		s.engine.arm(s)
	}
}

// called is a server's: a LAC has a subscriber (ICRQ).
func (t *tunnel) called(m *l2tp.Message) {
	e := t.engine
	remote, ok := m.Uint16(l2tp.AssignedSessionID)
	refuse := func(r l2tp.Result) {
		t.push(remote, l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, 0))
	}
	switch {
	case t.state != tunnelUp || t.server == nil:
		refuse(l2tp.Result{Code: l2tp.CallNever, Text: "calls are not taken here"})
		return
	case !ok || remote == 0:
		refuse(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorValue})
		return
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
	t.server.count++
	s.call = Call{
		Calling: m.Text(l2tp.CallingNumber), Called: m.Text(l2tp.CalledNumber), LAC: t.peer, LNS: t.here,
		LACName: t.lac,
	}
	s.call.Serial, _ = m.Uint32(l2tp.CallSerialNumber)
	t.push(remote, l2tp.New(l2tp.ICRP).AddUint16(l2tp.AssignedSessionID, s.local))
	e.arm(s)
}

func (e *Engine) newSession(t *tunnel, st sessionState) *session {
	local, ok := freeID(&e.nextS, e.sessions)
	if !ok {
		return nil
	}
	s := &session{engine: e, tunnel: t, local: local, state: st, since: e.now, deadline: e.now.Add(handshakeTime), id: e.identity()}
	e.sessions[local], t.sessions[local] = s, s
	return s
}

// handle takes a message about this session.
func (s *session) handle(m *l2tp.Message) {
	switch {
	case m.Type == l2tp.CDN:
		s.finish(ReasonPeer, "the peer ended the call: "+m.Result().String())
	case m.Type == l2tp.ICCN && s.state == sessionWaitConnect:
		s.connected(m)
	case m.Type == l2tp.ICRP && s.state == sessionWaitReply:
		s.replied(m)
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
	s.begin(linkSettings{
		server: true, name: srv.HostName, mru: srv.MRU, auth: srv.Methods, echo: srv.Echo, random: s.engine.random,
		ipv4: true, ipv6: true,
	})
	s.link.v6.local = [8]byte{7: 1}
	if !s.proxied(m) {
		s.link.start(s.engine.now)
	}
}

func (s *session) begin(settings linkSettings) {
	s.state, s.deadline = sessionUp, time.Time{}
	s.link = newLink(settings, s)
	s.engine.arm(s)
}

// sendFrame sends a frame of PPP to the peer.
func (s *session) sendFrame(p ppp.Protocol, b []byte) {
	s.sendRaw(ppp.AppendFrame(make([]byte, 0, ppp.FrameHeader+len(b)), p, b))
}

func (s *session) sendRaw(frame []byte) {
	t := s.tunnel
	b := make([]byte, 0, len(frame)+10)
	if s.sequence {
		b = l2tp.AppendSequenced(b, t.channel.peer, s.remote, s.ns, frame)
		s.ns++
	} else {
		b = l2tp.AppendData(b, t.channel.peer, s.remote, frame)
	}
	t.send(b)
}

func (s *session) receiveFrame(frame []byte) {
	protocol, packet, err := ppp.ParseFrame(frame)
	if err != nil {
		s.engine.stats.Malformed++
		return
	}
	switch {
	case protocol == ppp.IPv4 && s.link.v4.state == phaseOpened:
		s.fromPeer(packet)
	case protocol == ppp.IPv6 && s.link.v6.state == phaseOpened:
		s.fromPeer6(packet)
	case protocol == ppp.IPv4 || protocol == ppp.IPv6:
		if !(s.link.ipv4 && protocol == ppp.IPv4 || s.link.ipv6 && protocol == ppp.IPv6) {
			s.link.receive(protocol, packet, s.engine.now)
		}
	default:
		s.link.receive(protocol, packet, s.engine.now)
	}
}

// access gives the number that the datapath knows the section by.
func (s *session) access() int {
	if s.tunnel.server != nil {
		return s.tunnel.server.ID
	}
	return s.tunnel.client.ID
}

// networkChanged: IPCP or IPV6CP went up or down.
func (s *session) networkChanged() {
	v4, v6 := s.link.v4.state == phaseOpened, s.link.v6.state == phaseOpened
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
		s.advertAt = s.engine.now
	}
	if (v4 || v6) && !s.online {
		s.online = true
		if s.profile.SessionTimeout > 0 {
			s.endsAt = s.engine.now.Add(s.profile.SessionTimeout)
		}
		if s.profile.Interim > 0 {
			s.interim = s.engine.now.Add(s.profile.Interim)
		}
		s.account(AccountStart, "")
	}
}

func (s *session) account(kind AccountKind, why Reason) {
	if s.tunnel.server == nil {
		return
	}
	e := s.engine
	e.pending.accounts = append(e.pending.accounts, Account{
		Kind: kind, Access: s.tunnel.server.Name, Session: s.local, ID: s.id, Login: s.login, Call: s.call,
		Profile: s.assigned(), Started: s.since, At: e.now, Reason: why, Slow: s.slow,
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
	if s.link != nil {
		s.link.terminate(s.engine.now)
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
		t.push(s.remote, l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, s.local))
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
	s.state, s.text = sessionGone, text
	if s.link != nil {
		s.link.ended = true
	}
	if s.online {
		s.account(AccountStop, why)
	}
	e.disarm(s)
	delete(e.sessions, s.local)
	delete(t.sessions, s.local)
	delete(e.pending.sessions, s.local)
	e.pending.goneSs = append(e.pending.goneSs, s.local)
	e.pending.stored.sessions[s.local] = false
	if srv := t.server; srv != nil {
		srv.count--
		srv.release(s)
	}
	if c := t.client; c != nil {
		c.sessionDown(s, why, text)
	}
}

// asState is what the datapath needs.
func (s *session) asState() state.AccessSession {
	l := s.link
	a := state.AccessSession{Local: s.local, Remote: s.remote, Tunnel: s.tunnel.local, Access: s.access(), Sequence: s.sequence}
	a.MTU = uint16(s.mtu())
	a.MSS = a.MTU - 40
	if s.tunnel.client != nil {
		a.Trusted = true
		if l.v4.state == phaseOpened {
			a.IPv4 = l.v4.local
			a.Prefixes = append(a.Prefixes, netip.PrefixFrom(netip.IPv4Unspecified(), 0))
		}
		if l.v6.state == phaseOpened {
			a.Prefixes = append(a.Prefixes, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
		}
		return a
	}
	p := s.profile
	a.Up, a.Down, a.Garden = p.Up, p.Down, p.Garden
	a.Blocked = l.v4.state != phaseOpened && l.v6.state != phaseOpened
	if l.v4.state == phaseOpened {
		a.IPv4 = s.given.ipv4
	}
	if l.v6.state == phaseOpened {
		a.IPv6 = p.IPv6
	}
	a.Prefixes = s.prefixes()
	return a
}

// prefixes are those that belong to the subscriber now, single addresses left out.
func (s *session) prefixes() []netip.Prefix {
	var list []netip.Prefix
	v4, v6 := s.link.v4.state == phaseOpened, s.link.v6.state == phaseOpened
	add := func(p netip.Prefix) {
		if p.IsValid() && (p.Addr().Is4() && v4 || p.Addr().Is6() && v6) {
			list = append(list, p)
		}
	}
	add(s.given.prefix)
	add(s.given.delegated)
	for _, r := range s.profile.Routes {
		add(r)
	}
	return list
}

// mtu is what one IP packet may have: the peer's MRU, and not more than ours.
func (s *session) mtu() int {
	return min(s.link.lcp.peerMRU, s.link.mru)
}

// authenticate finds out who the peer is.
func (s *session) authenticate(c Credentials) {
	srv := s.tunnel.server
	if srv == nil {
		s.link.verdict(false, "", s.engine.now)
		return
	}
	if v, known := srv.local(c); known {
		s.decide(c, v)
		return
	}
	if !srv.Remote {
		s.decide(c, Verdict{Text: "Login incorrect"})
		return
	}
	s.engine.serial++
	s.question = s.engine.serial
	s.engine.world.Ask(Question{Access: srv.Name, Session: s.local, Serial: s.question, Credentials: c, Call: s.call})
}

// decide lets the subscriber in, or not.
func (s *session) decide(c Credentials, v Verdict) {
	e, srv := s.engine, s.tunnel.server
	s.question = 0
	if s.state != sessionUp || s.link == nil {
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
		s.link.verdict(false, v.Text, e.now)
		return
	}
	if !srv.assign(s, v.Profile) {
		e.stats.NoAddress++
		s.link.verdict(false, "No address is free", e.now)
		return
	}
	e.stats.Accepted++
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
	method, magic := Method(""), uint32(0)
	for _, o := range ours {
		switch {
		case o.Type == ppp.OptAuth:
			method = methodOf(o.Data)
		case o.Type == ppp.OptMagic && len(o.Data) == 4:
			magic = binary.BigEndian.Uint32(o.Data)
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
		c.Challenge, c.Response = challenge, response
		return c, true
	}
	return Credentials{}, false
}
