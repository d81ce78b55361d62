package access

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"weft/internal/state"
	"weft/internal/timer"
	"weft/wire/l2tp"
)

// tunnelState is that of the control connection (RFC 2661 section 7.2.1).
type tunnelState uint8

const (
	tunnelWaitReply   tunnelState = iota // client: SCCRQ is sent
	tunnelWaitConnect                    // server: SCCRP is sent
	tunnelUp
	tunnelClosing // StopCCN is sent or was received
)

func (s tunnelState) String() string {
	return [...]string{"wait-reply", "wait-connect", "established", "closing"}[s]
}

// handshakeTime bounds the three messages that set a tunnel or a session up.
const handshakeTime = 30 * time.Second

// noAnswer is said of a server from which nothing came.
const noAnswer = "the server does not answer: is it an L2TP server, and does the way to it carry UDP?"

// lingerTime is how long a closed tunnel still acknowledges (section 5.7: a
// full cycle of retransmission).
const lingerTime = 31 * time.Second

// tunnel is one control connection.
type tunnel struct {
	engine     *Engine
	server     *server // nil: it is a client's
	client     *client
	onward     *onward // it leads to another server
	local      uint16
	here, peer netip.AddrPort
	state      tunnelState
	channel    channel
	secret     []byte
	hide       bool
	challenge  []byte // ours
	tie        []byte // client: the tie breaker that was sent
	first      [32]byte
	host       string
	vendor     string
	lac        string // its name in the configuration
	sessions   map[uint16]*session
	calls      map[uint16]uint16 // server: the peer's numbers of sessions -> ours
	since      time.Time
	heard      time.Time // last control message
	helloAt    time.Time
	deadline   time.Time // of handshake or of lingering
	slot       timer.Slot
	history    history // of messages about the tunnel itself
}

func (t *tunnel) Slot() *timer.Slot { return &t.slot }

func (t *tunnel) Due() time.Time { return timer.Earliest(t.channel.due(), t.helloAt, t.deadline) }

func (t *tunnel) Tick(now time.Time) {
	if !t.channel.tick(now, t.send) {
		if t.state == tunnelClosing {
			t.remove()
		} else {
			t.fail("the peer does not answer")
		}
		return
	}
	if !t.deadline.IsZero() && !now.Before(t.deadline) {
		t.deadline = time.Time{}
		if t.state == tunnelClosing {
			t.remove()
			return
		}
		why := "the tunnel was not set up in time"
		if t.state == tunnelWaitReply {
			why = noAnswer
		}
		t.close(l2tp.Result{Code: l2tp.StopRequested, Text: why}, ReasonTimeout)
		return
	}
	if !t.helloAt.IsZero() && !now.Before(t.helloAt) {
		t.helloAt = now.Add(t.helloEvery())
		if t.channel.idle() && now.Sub(t.heard) >= t.helloEvery() {
			t.push(0, l2tp.New(l2tp.Hello))
		}
	}
	t.flush()
}

func (t *tunnel) helloEvery() time.Duration {
	if t.client != nil {
		return cmp.Or(t.client.Keepalive, time.Minute)
	}
	if t.onward != nil {
		return time.Minute
	}
	return cmp.Or(t.server.Hello, time.Minute)
}

func (t *tunnel) send(b []byte) { t.engine.world.Send(t.here, t.peer, b) }

func (t *tunnel) push(session uint16, m *l2tp.Message) {
	var body []byte
	if session == 0 {
		t.history.l2tp(true, m, t.engine.clock.Now())
	}
	if t.hide && len(t.secret) > 0 && m.Type != l2tp.StopCCN {
		vector := make([]byte, 16)
		t.engine.random(vector)
		body = m.MarshalHidden(t.secret, vector)
	} else {
		body = m.Marshal()
	}
	t.channel.push(session, body)
}

// flush sends what may be sent and sets the timer.
func (t *tunnel) flush() {
	t.channel.flush(t.engine.clock.Now(), t.send)
	if t.engine.tunnels[t.local] == t {
		t.engine.clock.Arm(t)
		if t.state == tunnelUp {
			t.engine.pending.stored.tunnels[t.local] = true
		}
	}
}

func (t *tunnel) peerWindow(m *l2tp.Message) {
	if n, ok := m.Uint16(l2tp.ReceiveWindowSize); ok {
		t.channel.setWindow(n)
	}
}

// introduce makes an SCCRQ or SCCRP.
func (t *tunnel) introduce(kind l2tp.MessageType, asked *l2tp.Message) *l2tp.Message {
	name := ""
	switch {
	case t.server != nil:
		name = t.server.HostName
	case t.client != nil:
		name = t.client.HostName
	default:
		name = t.onward.Name
	}
	m := l2tp.New(kind).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte(name)).
		AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, t.local)
	if kind == l2tp.SCCRQ {
		t.tie = make([]byte, 8)
		t.engine.random(t.tie)
		m.Option(l2tp.TieBreaker, t.tie)
	}
	m.AddUint16(l2tp.ReceiveWindowSize, ownWindow).Option(l2tp.VendorName, []byte("weft"))
	if asked != nil {
		t.respond(m, asked)
	}
	if len(t.secret) > 0 {
		t.challenge = make([]byte, 16)
		t.engine.random(t.challenge)
		m.Add(l2tp.Challenge, t.challenge)
	}
	return m
}

// respond answers the peer's challenge.
func (t *tunnel) respond(m, asked *l2tp.Message) {
	if c, ok := asked.Get(l2tp.Challenge); ok {
		m.Add(l2tp.ChallengeResponse, l2tp.Response(m.Type, t.secret, c))
	}
}

// proven tells whether the peer knows the secret (section 5.1.1).
func (t *tunnel) proven(m *l2tp.Message) bool {
	if len(t.challenge) == 0 {
		return true
	}
	got, ok := m.Get(l2tp.ChallengeResponse)
	return ok && hmac.Equal(got, l2tp.Response(m.Type, t.secret, t.challenge))
}

// receive takes a control message.
func (t *tunnel) receive(h l2tp.Header, body []byte) {
	e := t.engine
	t.heard = e.clock.Now()
	if !t.channel.receive(h, len(body) == 0, e.clock.Now()) {
		t.flush()
		return
	}
	m, err := l2tp.ParseMessage(body, t.secret)
	over := m != nil && (m.Type == l2tp.StopCCN || m.Type == l2tp.CDN) // they end all the same
	switch {
	case err != nil && !over:
		t.misunderstood(h.Session, m, l2tp.ErrorValue)
	case m.Unknown && !over:
		t.misunderstood(h.Session, m, l2tp.ErrorMandatory)
	case t.state == tunnelClosing:
	default:
		t.handle(h.Session, m)
	}
	t.flush()
}

func (t *tunnel) handle(session uint16, m *l2tp.Message) {
	if session == 0 && m.Type != l2tp.ICRQ {
		t.history.l2tp(false, m, t.engine.clock.Now())
	}
	switch m.Type {
	case l2tp.SCCRP:
		t.replied(m)
	case l2tp.SCCCN:
		t.connected(m)
	case l2tp.StopCCN:
		t.stopped(m)
	case l2tp.Hello:
	case l2tp.ICRQ:
		t.called(m)
	case l2tp.OCRQ:
		t.notDialling(m)
	case l2tp.ICRP, l2tp.ICCN, l2tp.CDN, l2tp.OCRP, l2tp.OCCN, l2tp.WEN, l2tp.SLI:
		if s := t.about(session, m); s != nil {
			s.handle(m)
		}
	default:
		if !m.Optional {
			t.misunderstood(0, m, l2tp.ErrorMandatory) // section 4.4.1
		}
	}
}

// replied is a client's: the server agrees.
func (t *tunnel) replied(m *l2tp.Message) {
	id, ok := m.Uint16(l2tp.AssignedTunnelID)
	if t.state != tunnelWaitReply || !ok || id == 0 {
		t.close(l2tp.Result{Code: l2tp.StopState}, ReasonError)
		return
	}
	t.channel.peer = id
	t.host, t.vendor = m.Text(l2tp.HostName), m.Text(l2tp.VendorName)
	t.peerWindow(m)
	if !t.proven(m) {
		t.close(l2tp.Result{Code: l2tp.StopUnauthorized, Text: "the tunnel's secret is another one on the other side"}, ReasonRefused)
		return
	}
	done := l2tp.New(l2tp.SCCCN)
	t.respond(done, m)
	t.push(0, done)
	t.established()
	if t.onward != nil {
		t.onward.tunnelUp()
		return
	}
	t.client.tunnelUp(t)
}

// connected is a server's: the peer has confirmed.
func (t *tunnel) connected(m *l2tp.Message) {
	if t.state != tunnelWaitConnect {
		t.close(l2tp.Result{Code: l2tp.StopState}, ReasonError)
		return
	}
	if !t.proven(m) {
		t.engine.stats.Refused++
		t.close(l2tp.Result{Code: l2tp.StopUnauthorized, Text: "the tunnel's secret is another one on the other side"}, ReasonRefused)
		return
	}
	t.established()
}

func (t *tunnel) established() {
	t.state, t.deadline, t.since = tunnelUp, time.Time{}, t.engine.clock.Now()
	t.helloAt = t.engine.clock.Now().Add(t.helloEvery())
	t.engine.stats.TunnelsNew++
	t.engine.pending.tunnels[t.local] = true
}

// stopped: the peer ends the tunnel, and all in it.
func (t *tunnel) stopped(m *l2tp.Message) {
	if id, ok := m.Uint16(l2tp.AssignedTunnelID); ok && t.channel.peer == 0 {
		t.channel.peer = id // it refuses: so far it had no other chance to say
	}
	t.endSessions(ReasonTunnel, "the peer ended the tunnel: "+m.Why())
	t.linger()
	t.tellDown("the server ended the tunnel: " + m.Why())
}

func (t *tunnel) linger() {
	t.state, t.helloAt = tunnelClosing, time.Time{}
	t.deadline = t.engine.clock.Now().Add(lingerTime)
	t.forget()
}

// forget tells the datapath and the store that the tunnel is over.
func (t *tunnel) forget() {
	p := &t.engine.pending
	delete(p.tunnels, t.local)
	p.goneTunnels = append(p.goneTunnels, t.local)
	t.engine.leaving.tunnels[t.local] = true
	p.stored.tunnels[t.local] = false
}

// close ends the tunnel from this side.
func (t *tunnel) close(r l2tp.Result, why Reason) {
	if t.state == tunnelClosing {
		return
	}
	t.endSessions(why, r.Text)
	stop := l2tp.New(l2tp.StopCCN).AddUint16(l2tp.AssignedTunnelID, t.local).AddResult(r)
	t.push(0, stop)
	t.linger()
	t.flush()
	t.tellDown(cmp.Or(r.Text, r.Words(l2tp.StopCCN)))
}

// fail ends a tunnel whose peer is gone.
func (t *tunnel) fail(text string) {
	t.endSessions(ReasonLost, text)
	t.forget()
	t.remove()
	t.tellDown(text)
}

// tellDown tells whoever wanted the tunnel that it is over.
func (t *tunnel) tellDown(text string) {
	if t.client != nil {
		t.client.tunnelDown(t, text)
	}
	if t.onward != nil {
		t.onward.tunnelDown(t, text)
	}
}

// abandon is fail for a peer that has begun a new tunnel.
func (t *tunnel) abandon(text string) {
	if t.state != tunnelClosing {
		t.endSessions(ReasonTunnel, text)
		t.forget()
	}
	t.remove()
}

func (t *tunnel) endSessions(why Reason, text string) {
	ids := make([]uint16, 0, len(t.sessions))
	for id := range t.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t.sessions[id].finish(why, text)
	}
}

func (t *tunnel) remove() {
	e := t.engine
	e.clock.Disarm(t)
	delete(e.tunnels, t.local)
	if key := (peerKey{t.peer, t.channel.peer}); e.byPeer[key] == t {
		delete(e.byPeer, key)
	}
}

func (t *tunnel) asState() state.AccessTunnel {
	return state.AccessTunnel{Local: t.local, Remote: t.channel.peer, Here: t.here, Peer: t.peer}
}

// identity makes up what a session is called in accounting.
func (e *Engine) identity() string {
	var b [8]byte
	e.random(b[:])
	const digits = "0123456789abcdef"
	var out bytes.Buffer
	for _, c := range binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(b[:])) {
		out.WriteByte(digits[c>>4])
		out.WriteByte(digits[c&15])
	}
	return out.String()
}
