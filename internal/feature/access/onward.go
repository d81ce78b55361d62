package access

import (
	"bytes"
	"cmp"
	"net/netip"
	"strings"
	"time"

	"weft/internal/ppp"
	"weft/internal/state"
	"weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// Subscribers of others: their sessions go on to another network server, in a
// tunnel in which this router is the LAC (RFC 2661). What LCP agreed on, and
// what the subscriber showed, goes with the call; from then on frames are
// carried as they come.

// Onward says where a session goes on to.
type Onward struct {
	Server string `json:"server"` // name or address, with a port unless it is 1701
	Secret string `json:"secret,omitempty"`
	Name   string `json:"name,omitempty"` // what this router calls itself there
	Hide   bool   `json:"hide,omitempty"` // control messages are enciphered
}

// dialOnward is what a dialled name begins with that is not a client's.
const dialOnward = "onward "

func (o Onward) key() string {
	key := dialOnward + o.Server + " " + o.Name + " " + o.Secret
	if o.Hide {
		key += " hidden"
	}
	return key
}

// OnwardServer gives the server of a name that World.Dial is called with;
// false: it is a client's.
func OnwardServer(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, dialOnward)
	server, _, _ := strings.Cut(rest, " ")
	return server, ok
}

// onward is a tunnel to another network server, while there is one.
type onward struct {
	Onward
	engine  *Engine
	key     string
	tunnel  *tunnel
	waiting []*session // subscribers that are to go there
	calls   uint32
}

// onwardFor finds where logins of a realm go.
func (s *server) onwardFor(login string) (Onward, bool) {
	_, realm, ok := strings.Cut(login, "@")
	for _, f := range s.Forward {
		if ok && strings.EqualFold(f.Realm, realm) {
			return Onward{f.Server, f.Secret, cmp.Or(f.HostName, s.HostName), f.Hide}, true
		}
	}
	return Onward{}, false
}

// sendOn hands the session to another server, which asks it who it is.
func (s *session) sendOn(c ppp.Credentials, to Onward) {
	e := s.engine
	s.shown, s.onward, s.login = c, to, l2tp.Printable([]byte(c.Login))
	key := to.key()
	if e.onwards == nil {
		e.onwards = map[string]*onward{}
	}
	o := e.onwards[key]
	if o == nil {
		o = &onward{Onward: to, engine: e, key: key}
		e.onwards[key] = o
		e.world.Dial(key)
	}
	if o.tunnel != nil && o.tunnel.state == tunnelUp {
		o.call(s)
		return
	}
	o.waiting = append(o.waiting, s)
}

// onwardDialed and its like are what Dialed and NotDialed do for these.
func (o *onward) dialed(here, peer netip.AddrPort) {
	e := o.engine
	local, ok := freeID(&e.nextT, e.tunnels, e.leaving.tunnels)
	if !ok {
		o.over("no tunnel is free")
		return
	}
	t := &tunnel{
		engine: e, onward: o, local: local, here: here, peer: peer, state: tunnelWaitReply, channel: newChannel(0),
		secret: []byte(o.Secret), hide: o.Hide && o.Secret != "", sessions: map[uint16]*session{}, since: e.clock.Now(), heard: e.clock.Now(), deadline: e.clock.Now().Add(handshakeTime),
	}
	e.tunnels[local], o.tunnel = t, t
	t.push(0, t.introduce(l2tp.SCCRQ, nil))
	t.flush()
}

func (o *onward) tunnelUp() {
	list := o.waiting
	o.waiting = nil
	for _, s := range list {
		o.call(s)
	}
}

func (o *onward) tunnelDown(t *tunnel, text string) {
	if o.tunnel == t {
		o.over(text)
	}
}

// over ends all that waits for the server.
func (o *onward) over(why string) {
	if o.engine.onwards[o.key] == o {
		delete(o.engine.onwards, o.key)
	}
	list := o.waiting
	o.tunnel, o.waiting = nil, nil
	for _, s := range list {
		s.close(l2tp.Result{Code: l2tp.CallNoFacilities, Text: why}, ReasonTunnel, "the server that it belongs to cannot be reached: "+why)
	}
}

// call asks the other server for a session for s (ICRQ).
func (o *onward) call(s *session) {
	if s.state != sessionUp || s.link == nil || s.link.Ended() || s.pair != nil {
		return
	}
	e := o.engine
	x := e.newSession(o.tunnel, sessionWaitReply)
	if x == nil {
		s.close(l2tp.Result{Code: l2tp.CallNoFacilities, Text: "no session is free"}, ReasonError, "no session is free")
		return
	}
	x.pair, s.pair = s, x
	o.calls++
	m := l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, x.local).AddUint32(l2tp.CallSerialNumber, o.calls)
	if s.call.Calling != "" {
		m.Add(l2tp.CallingNumber, []byte(s.call.Calling))
	}
	if s.call.Called != "" {
		m.Add(l2tp.CalledNumber, []byte(s.call.Called))
	}
	x.push(m)
	o.tunnel.flush()
	e.clock.Arm(x)
}

// onwardTaken: the other server takes the call (ICRP). It hears what LCP agreed
// on and what the subscriber showed (sections 4.4.5, 6.8), and frames pass.
func (x *session) onwardTaken(m *l2tp.Message) {
	id, ok := m.Uint16(l2tp.AssignedSessionID)
	s := x.pair
	if !ok || id == 0 || s == nil {
		x.close(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorValue}, ReasonError, "the server gives no session")
		return
	}
	x.remote = id
	done := l2tp.New(l2tp.ICCN).AddUint32(l2tp.TxConnectSpeed, cmp.Or(s.call.Tx, 1_000_000_000)).AddUint32(l2tp.FramingType, 1)
	if s.call.Rx != 0 {
		done.Option(l2tp.RxConnectSpeed, appendUint32(s.call.Rx))
	}
	if s.sequence {
		done.Add(l2tp.SequencingRequired, nil)
		x.sequence, x.required = true, true
	}
	if s.call.Group != "" {
		done.Option(l2tp.PrivateGroupID, []byte(s.call.Group))
	}
	initial, sent, received := s.link.LCPOptions()
	if initial != nil {
		done.Option(l2tp.InitialReceivedLCP, initial)
	}
	done.Option(l2tp.LastSentLCP, sent).Option(l2tp.LastReceivedLCP, received)
	prove(done, s.shown)
	x.push(done)
	x.tunnel.flush() // before the first frame
	x.state, x.deadline = sessionUp, time.Time{}
	x.since, s.shown = x.engine.clock.Now(), ppp.Credentials{}
	s.link.Abandon() // PPP is between the two now
	p := &s.engine.pending
	for _, side := range []*session{s, x} {
		p.sessions[side.local], p.stored.sessions[side.local] = true, true
	}
	s.begun()
	s.engine.clock.Arm(s)
	s.engine.clock.Arm(x)
}

func appendUint32(n uint32) []byte {
	return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// prove adds what the subscriber showed. For MS-CHAPv2 there is no number: the
// other server asks anew.
func prove(m *l2tp.Message, c ppp.Credentials) {
	id := func() []byte { return []byte{0, c.ID} }
	switch c.Method {
	case ppp.MethodPAP:
		m.Option(l2tp.ProxyAuthenType, []byte{0, proxyPAP}).Option(l2tp.ProxyAuthenName, []byte(c.Login)).
			Option(l2tp.ProxyAuthenID, id()).Option(l2tp.ProxyAuthenResponse, []byte(c.Password))
	case "":
		m.Option(l2tp.ProxyAuthenType, []byte{0, proxyNone})
	case ppp.MethodCHAP:
		m.Option(l2tp.ProxyAuthenType, []byte{0, proxyCHAP}).Option(l2tp.ProxyAuthenName, []byte(c.Login)).Option(l2tp.ProxyAuthenID, id()).
			Option(l2tp.ProxyAuthenChallenge, c.Challenge).Option(l2tp.ProxyAuthenResponse, c.Response)
	}
}

// subscriber is the side of the two that a subscriber has.
func (s *session) subscriber() *session {
	if s.tunnel.onward != nil {
		return s.pair
	}
	return s
}

// forwarded tells whether frames pass to the other side.
func (s *session) forwarded() bool {
	return s.pair != nil && s.state == sessionUp && s.pair.state == sessionUp && s.subscriber().link.Ended()
}

// carried tells whether the programs have the session.
func (s *session) carried() bool { return s.running() || s.forwarded() }

// asForwarded is what the datapath needs of either side.
func (s *session) asForwarded() state.AccessSession {
	one := s.subscriber()
	a := state.AccessSession{
		Local: s.local, Remote: s.remote, Tunnel: s.tunnel.local, Access: one.access(), Onward: s.pair.local, Sequence: s.sequence, Numbered: s.heard, First: s.ns,
	}
	if s != one {
		a.Trusted = true
		return a
	}
	a.Up, a.Down, a.Garden, a.Capture = s.profile.Up, s.profile.Down, s.profile.Garden, s.watch != nil
	return a
}

// relay carries a frame to the other side of a session that has one; false: it
// has none, and the frame is for this router. The programs do so too, and leave
// what is too large for the way, or came in pieces (bpf/blocks/l2tp_onward.h).
func (s *session) relay(frame []byte) bool {
	if !s.forwarded() {
		return s.tunnel.onward != nil // nobody is there yet: what matters comes again
	}
	one := s.subscriber()
	up := s == one
	rate, l := one.profile.Up, &one.up
	if !up {
		rate, l = one.profile.Down, &one.down
	}
	protocol, packet, err := wireppp.ParseFrame(frame)
	data := err == nil && protocol < controlProtocols && len(packet) > 0
	if data && one.profile.Garden && !one.letsOnward(packet, protocol, up) {
		s.engine.stats.Garden++
		return true
	}
	size := len(frame)
	if data {
		size = len(packet)
	}
	if !l.pass(rate, size, s.engine.clock.Now()) {
		return true
	}
	switch {
	case !data: // PPP's own is no traffic
	case up:
		one.slow.UpPackets, one.slow.UpBytes = one.slow.UpPackets+1, one.slow.UpBytes+uint64(size)
	default:
		one.slow.DownPackets, one.slow.DownBytes = one.slow.DownPackets+1, one.slow.DownBytes+uint64(size)
	}
	s.pair.sendRaw(frame)
	return true
}

// controlProtocols are those from here on that are no network's (RFC 1661 section 2).
const controlProtocols wireppp.Protocol = 0x4000

// letsOnward is lets for a frame that goes on.
func (s *session) letsOnward(packet []byte, p wireppp.Protocol, up bool) bool {
	from, to, ok := addressesOf(packet)
	if !ok || p != wireppp.IPv4 && p != wireppp.IPv6 {
		return false
	}
	if to.Is6() && (from.IsLinkLocalUnicast() || to.IsLinkLocalUnicast() || to.IsMulticast()) {
		return true // how the two ends find each other
	}
	if up {
		return s.lets(to)
	}
	return s.lets(from)
}

// tellOther hands what is said of the line on to the other side: errors to the
// server, the ACCM to the LAC (sections 6.13 and 6.14).
func (s *session) tellOther(m *l2tp.Message, a l2tp.Attribute) {
	value, ok := m.Get(a)
	fromLAC := s.tunnel.onward == nil
	if !ok || !s.forwarded() || fromLAC != (m.Type == l2tp.WEN) {
		return
	}
	s.pair.push(l2tp.New(m.Type).Add(a, bytes.Clone(value)))
	s.pair.tunnel.flush()
}

// part ends the other side of a session that is over.
func (s *session) part(why Reason, text string) {
	p := s.pair
	if p == nil {
		return
	}
	s.pair, p.pair = nil, nil
	p.close(l2tp.Result{Code: l2tp.CallCarrierLost, Text: text}, why, text)
	s.tunnel.relieve()
	p.tunnel.relieve()
}

// restoreOnward takes over a tunnel to another server.
func (e *Engine) restoreOnward(t *tunnel, to Onward, calls uint32) {
	key := to.key()
	if e.onwards == nil {
		e.onwards = map[string]*onward{}
	}
	if e.onwards[key] != nil {
		return
	}
	t.onward = &onward{Onward: to, engine: e, key: key, tunnel: t, calls: calls}
	e.onwards[key] = t.onward
}

// restorePairs brings the two sides of sessions that go on together again. A
// side whose other one was not kept, or has no section any more, is over.
func (e *Engine) restorePairs(kept []storedSession) {
	of := map[uint16]uint16{}
	for _, k := range kept {
		of[k.Local] = k.Pair
	}
	for _, k := range kept {
		s, p := e.sessions[k.Local], e.sessions[k.Pair]
		if s == nil || s.pair != nil || k.Pair == 0 && s.tunnel.onward == nil {
			continue
		}
		if k.Pair == 0 || p == nil || of[k.Pair] != k.Local || (p.tunnel.onward == nil) == (s.tunnel.onward == nil) {
			s.close(l2tp.Result{Code: l2tp.CallCarrierLost, Text: "the other side is gone"}, ReasonTunnel, "the other side was not kept")
			continue
		}
		s.pair, p.pair = p, s
	}
	for _, t := range e.sortedTunnels() {
		if t.onward != nil {
			t.relieve()
		}
	}
}

// relieve ends a tunnel that nobody needs.
func (t *tunnel) relieve() {
	if o := t.onward; o != nil && len(t.sessions) == 0 && len(o.waiting) == 0 && t.state == tunnelUp {
		t.close(l2tp.Result{Code: l2tp.StopRequested, Text: "nobody needs it any more"}, ReasonRequested)
	}
}
