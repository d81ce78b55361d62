package subscriber

import (
	"bytes"
	"cmp"
	"net/netip"
	"strings"

	"weft/internal/l2tp"
	"weft/internal/ppp"
	"weft/internal/state"
	wirel2tp "weft/wire/l2tp"
	"weft/wire/oversize"
	wireppp "weft/wire/ppp"
)

// Subscribers of others: their sessions go on to another network server, in a
// tunnel in which this router is the LAC (RFC 2661). What LCP agreed on, and
// what the subscriber showed, goes with the call; from then on frames are
// carried as they come.

// SwitchTarget says where a session goes on to.
type SwitchTarget struct {
	Server string `json:"server"` // name or address, with a port unless it is 1701
	Secret string `json:"secret,omitempty"`
	Name   string `json:"name,omitempty"` // what this router calls itself there
	Hide   bool   `json:"hide,omitempty"` // control messages are enciphered
}

// dialSwitch is what a dialled name begins with that is not a client's.
const dialSwitch = "switch "

func (o SwitchTarget) key() string {
	key := dialSwitch + o.Server + " " + o.Name + " " + o.Secret
	if o.Hide {
		key += " hidden"
	}
	return key
}

// SwitchServer returns the server of a name that Backend.Dial is called with;
// false: it is a client's.
func SwitchServer(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, dialSwitch)
	server, _, _ := strings.Cut(rest, " ")
	return server, ok
}

// switchTunnel is a tunnel to another network server, while there is one.
type switchTunnel struct {
	SwitchTarget
	engine  *Engine
	key     string
	tunnel  *tunnel
	waiting []*session // subscribers that are to go there
	calls   uint32
}

// switchTarget finds where logins of a realm go.
func (s *server) switchTarget(login string) (SwitchTarget, bool) {
	_, realm, ok := strings.Cut(login, "@")
	for _, f := range s.Forward {
		if ok && strings.EqualFold(f.Realm, realm) {
			return SwitchTarget{f.Server, f.Secret, cmp.Or(f.HostName, s.HostName), f.Hide}, true
		}
	}
	return SwitchTarget{}, false
}

// switchTo hands the session to another server, which asks it who it is.
func (s *session) switchTo(c ppp.Credentials, to SwitchTarget) {
	e := s.engine
	s.shown, s.target, s.login = c, to, wirel2tp.Printable([]byte(c.Login))
	key := to.key()
	if e.switches == nil {
		e.switches = map[string]*switchTunnel{}
	}
	o := e.switches[key]
	if o == nil {
		o = &switchTunnel{SwitchTarget: to, engine: e, key: key}
		e.switches[key] = o
		e.backend.Dial(key)
	}
	if o.tunnel != nil && o.tunnel.State() == l2tp.TunnelUp {
		o.call(s)
		return
	}
	o.waiting = append(o.waiting, s)
}

// dialed and its like are what Dialed and NotDialed do for these.
func (o *switchTunnel) dialed(here, peer netip.AddrPort) {
	t := &tunnel{engine: o.engine, toServer: o}
	o.tunnel = t
	if !t.connect(here, peer, l2tp.Config{HostName: o.Name, Secret: o.Secret, Hide: o.Hide && o.Secret != ""}) {
		o.tunnel = nil
		o.over("no tunnel is free")
	}
}

func (o *switchTunnel) tunnelUp() {
	list := o.waiting
	o.waiting = nil
	for _, s := range list {
		o.call(s)
	}
}

func (o *switchTunnel) tunnelDown(t *tunnel, text string) {
	if o.tunnel == t {
		o.over(text)
	}
}

// over ends all that waits for the server.
func (o *switchTunnel) over(why string) {
	if o.engine.switches[o.key] == o {
		delete(o.engine.switches, o.key)
	}
	list := o.waiting
	o.tunnel, o.waiting = nil, nil
	for _, s := range list {
		s.close(wirel2tp.Result{Code: wirel2tp.CallNoFacilities, Text: why}, ReasonTunnel, "the server that it belongs to cannot be reached: "+why)
	}
}

// call asks the other server for a session for s (ICRQ).
func (o *switchTunnel) call(s *session) {
	if !s.up() || s.link == nil || s.link.Ended() || s.pair != nil {
		return
	}
	x := o.tunnel.newSession()
	if x == nil {
		s.close(wirel2tp.Result{Code: wirel2tp.CallNoFacilities, Text: "no session id is free"}, ReasonError, "no session id is free")
		return
	}
	x.pair, s.pair = s, x
	o.calls++
	x.l2tp.Request(o.calls, s.call.Calling, s.call.Called)
}

// switchAnswered: the other server takes the call (ICRP). It hears what LCP agreed
// on and what the subscriber showed (sections 4.4.5, 6.8), and frames pass.
func (x *session) switchAnswered() {
	s := x.pair
	c := l2tp.Connected{Tx: s.call.Tx, Rx: s.call.Rx, Group: s.call.Group, Sequencing: s.l2tp.Sequenced(), LCP: &l2tp.ProxyLCP{}, Auth: proxyAuth(s.shown)}
	c.LCP.Initial, c.LCP.Sent, c.LCP.Received = s.link.LCPOptions()
	x.l2tp.Connect(c)
	x.since, s.shown = x.engine.clock.Now(), ppp.Credentials{}
	s.link.Abandon() // PPP is between the two now
	p := &s.engine.pending
	for _, side := range []*session{s, x} {
		p.sessions[side.local], p.stored[side.local] = true, true
	}
	s.begun()
	s.engine.clock.Arm(s)
}

// proxyAuth is what the subscriber showed. For MS-CHAPv2 there is no type: the other
// server asks the subscriber itself.
func proxyAuth(c ppp.Credentials) *l2tp.ProxyAuth {
	switch c.Method {
	case ppp.MethodPAP:
		return &l2tp.ProxyAuth{Type: l2tp.ProxyPAP, Name: []byte(c.Login), ID: c.ID, Response: []byte(c.Password)}
	case "":
		return &l2tp.ProxyAuth{Type: l2tp.ProxyNone}
	case ppp.MethodCHAP:
		return &l2tp.ProxyAuth{Type: l2tp.ProxyCHAP, Name: []byte(c.Login), ID: c.ID, Challenge: c.Challenge, Response: c.Response}
	}
	return nil
}

// subscriber is the side of the two that a subscriber has.
func (s *session) subscriber() *session {
	if s.tunnel.toServer != nil {
		return s.pair
	}
	return s
}

// forwarded reports whether frames pass to the other side.
func (s *session) forwarded() bool {
	return s.pair != nil && s.up() && s.pair.up() && s.subscriber().link.Ended()
}

// carried reports whether the programs have the session.
func (s *session) carried() bool { return s.running() || s.forwarded() }

// asForwarded is what the datapath needs of either side.
func (s *session) asForwarded() state.L2TPSession {
	one := s.subscriber()
	a := state.L2TPSession{
		Local: s.local, Remote: s.l2tp.Remote(), Tunnel: s.tunnel.Local(), LNS: one.access(), SwitchedTo: s.pair.local, Sequence: s.l2tp.Sequenced(),
		Numbered: s.l2tp.Numbered(), First: s.l2tp.Next(),
	}
	if s != one {
		a.Trusted = true
		return a
	}
	a.Up, a.Down, a.WalledGarden, a.Capture = s.profile.Up, s.profile.Down, s.profile.WalledGarden, s.watch != nil
	return a
}

// relay carries a frame to the other side of a session that has one; false: it
// has none, and the frame is for this router. The programs do so too, and leave
// what is too large for the way, or came in pieces (bpf/blocks/l2tp_switch.h).
func (s *session) relay(frame []byte) bool {
	if !s.forwarded() {
		return s.tunnel.toServer != nil // the other side is not there yet: what matters comes again
	}
	one := s.subscriber()
	up := s == one
	rate, l := one.profile.Up, &one.rateUp
	if !up {
		rate, l = one.profile.Down, &one.rateDown
	}
	protocol, packet, err := wireppp.ParseFrame(frame)
	data := err == nil && protocol < controlProtocols && len(packet) > 0
	if data && one.profile.WalledGarden && !one.walledGardenPassesFrame(packet, protocol, up) {
		s.engine.stats.WalledGarden++
		return true
	}
	size := len(frame)
	if data {
		size = len(packet)
	}
	if !l.Pass(rate, size, s.engine.clock.Now()) {
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

// walledGardenPassesFrame is lets for a frame that goes on.
func (s *session) walledGardenPassesFrame(packet []byte, p wireppp.Protocol, up bool) bool {
	from, to, ok := oversize.Addresses(packet)
	if !ok || p != wireppp.IPv4 && p != wireppp.IPv6 {
		return false
	}
	if to.Is6() && (from.IsLinkLocalUnicast() || to.IsLinkLocalUnicast() || to.IsMulticast()) {
		return true // how the two ends find each other
	}
	if up {
		return s.walledGardenPasses(to)
	}
	return s.walledGardenPasses(from)
}

// relayNotice hands what is said of the line on to the other side: errors to the
// server, the ACCM to the LAC (sections 6.13 and 6.14).
func (s *session) relayNotice(n l2tp.Notified) {
	fromLAC := s.tunnel.toServer == nil
	if s.forwarded() && fromLAC == (n.Type == wirel2tp.WEN) {
		s.pair.l2tp.Notify(l2tp.Notified{Type: n.Type, Value: bytes.Clone(n.Value)})
	}
}

// part ends the other side of a session that is over.
func (s *session) part(why Reason, text string) {
	p := s.pair
	if p == nil {
		return
	}
	s.pair, p.pair = nil, nil
	p.close(wirel2tp.Result{Code: wirel2tp.CallCarrierLost, Text: text}, why, text)
	s.tunnel.closeIdle()
	p.tunnel.closeIdle()
}

// restoreSwitch takes over a tunnel to another server.
func (e *Engine) restoreSwitch(t *tunnel, to SwitchTarget, calls uint32) {
	key := to.key()
	if e.switches == nil {
		e.switches = map[string]*switchTunnel{}
	}
	if e.switches[key] != nil {
		return
	}
	t.toServer = &switchTunnel{SwitchTarget: to, engine: e, key: key, tunnel: t, calls: calls}
	e.switches[key] = t.toServer
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
		if s == nil || s.pair != nil || k.Pair == 0 && s.tunnel.toServer == nil {
			continue
		}
		if k.Pair == 0 || p == nil || of[k.Pair] != k.Local || (p.tunnel.toServer == nil) == (s.tunnel.toServer == nil) {
			s.close(wirel2tp.Result{Code: wirel2tp.CallCarrierLost, Text: "the other session has ended"}, ReasonTunnel, "the other session was not stored")
			continue
		}
		s.pair, p.pair = p, s
	}
	for _, t := range e.tunnels() {
		if t.toServer != nil {
			t.closeIdle()
		}
	}
}

// closeIdle ends a tunnel without sessions.
func (t *tunnel) closeIdle() {
	if o := t.toServer; o != nil && t.Idle() && len(o.waiting) == 0 && t.State() == l2tp.TunnelUp {
		t.Close(wirel2tp.Result{Code: wirel2tp.StopRequested, Text: "the tunnel is no longer needed"}, l2tp.ReasonRequested)
	}
}
