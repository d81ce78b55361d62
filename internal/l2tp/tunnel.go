package l2tp

import (
	"cmp"
	"crypto/hmac"
	"net/netip"
	"slices"
	"time"

	"weft/internal/timer"
	"weft/wire/l2tp"
)

// TunnelState is that of the control connection (RFC 2661 section 7.2.1).
type TunnelState uint8

const (
	WaitReply   TunnelState = iota // SCCRQ is sent
	WaitConnect                    // SCCRP is sent
	TunnelUp
	Closing // StopCCN is sent or was received
)

func (s TunnelState) String() string {
	return [...]string{"wait-reply", "wait-connect", "established", "closing"}[s]
}

// handshakeTime bounds the three messages that set a tunnel or a session up.
const handshakeTime = 30 * time.Second

// NoAnswer is the fault of a server from which nothing came.
const NoAnswer = "the server does not answer: is it an L2TP server, and does the way to it carry UDP?"

// closingTime is how long a closed tunnel still acknowledges (section 5.7: a
// full cycle of retransmission).
const closingTime = 31 * time.Second

// Tunnel is one control connection.
type Tunnel struct {
	endpoint   *Endpoint
	owner      Owner
	initiator  bool // this end has asked for it: it is the LAC
	hostName   string
	hello      time.Duration
	local      uint16
	here, peer netip.AddrPort
	state      TunnelState
	channel    channel
	secret     []byte
	hide       bool
	challenge  []byte // ours
	tie        []byte // initiator: the tie breaker that was sent
	first      [32]byte
	host       string
	vendor     string
	sessions   map[uint16]*Session
	calls      map[uint16]uint16 // LNS: the peer's ids of sessions -> ours
	since      time.Time
	received   time.Time // last control message
	helloAt    time.Time
	deadline   time.Time // of handshake or of lingering
	slot       timer.Slot
	isUnproven bool      // responder: the peer has not confirmed the tunnel
	wasUp      bool      // it is known to the datapath and the store
	beats      []*Tunnel // responder: those that this end asked for, and that go when the peer confirms this one
}

// Slot, Due and Tick are for the clock.
func (t *Tunnel) Slot() *timer.Slot { return &t.slot }
func (t *Tunnel) Due() time.Time    { return timer.Earliest(t.channel.due(), t.helloAt, t.deadline) }

func (t *Tunnel) Tick(now time.Time) {
	if !t.channel.tick(now, t.send) {
		if t.state == Closing {
			t.remove()
		} else {
			t.Fail("the peer does not answer")
		}
		return
	}
	if !t.deadline.IsZero() && !now.Before(t.deadline) {
		t.deadline = time.Time{}
		if t.state == Closing {
			t.remove()
			return
		}
		if t.isUnproven {
			t.discard()
			return
		}
		why := "the tunnel was not set up in time"
		if t.state == WaitReply {
			why = NoAnswer
		}
		t.Close(l2tp.Result{Code: l2tp.StopRequested, Text: why}, ReasonTimeout)
		return
	}
	if !t.helloAt.IsZero() && !now.Before(t.helloAt) {
		t.helloAt = now.Add(t.helloEvery())
		if t.channel.idle() && now.Sub(t.received) >= t.helloEvery() {
			t.push(0, l2tp.New(l2tp.Hello))
		}
	}
	t.flush()
}

func (t *Tunnel) helloEvery() time.Duration { return cmp.Or(t.hello, time.Minute) }

// SetHello sets after how much silence the peer is asked whether it is there; 0: a minute.
func (t *Tunnel) SetHello(every time.Duration) { t.hello = every }

func (t *Tunnel) send(b []byte) { t.endpoint.host.Send(t.here, t.peer, b) }

func (t *Tunnel) now() time.Time { return t.endpoint.clock.Now() }

func (t *Tunnel) traced(sent bool, m *l2tp.Message) { t.owner.TunnelEvent(t, Trace{sent, m}) }

func (t *Tunnel) push(session uint16, m *l2tp.Message) {
	var body []byte
	if session == 0 {
		t.traced(true, m)
	}
	if t.hide && len(t.secret) > 0 && m.Type != l2tp.StopCCN {
		vector := make([]byte, 16)
		t.endpoint.random(vector)
		body = m.MarshalHidden(t.secret, vector)
	} else {
		body = m.Marshal()
	}
	t.channel.push(session, body)
}

// flush sends what may be sent and sets the timer.
func (t *Tunnel) flush() {
	t.channel.flush(t.now(), t.send)
	if e := t.endpoint; e.tunnels[t.local] == t {
		e.clock.Arm(t)
		if t.state == TunnelUp {
			e.changes.Stored[t.local] = true
		}
	}
}

func (t *Tunnel) peerWindow(m *l2tp.Message) {
	if n, ok := m.Uint16(l2tp.ReceiveWindowSize); ok {
		t.channel.setWindow(n)
	}
}

// setupMessage makes an SCCRQ or SCCRP.
func (t *Tunnel) setupMessage(kind l2tp.MessageType, asked *l2tp.Message) *l2tp.Message {
	m := l2tp.New(kind).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte(t.hostName)).
		AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, t.local)
	if kind == l2tp.SCCRQ {
		t.tie = make([]byte, 8)
		t.endpoint.random(t.tie)
		m.Option(l2tp.TieBreaker, t.tie)
	}
	m.AddUint16(l2tp.ReceiveWindowSize, ownWindow).Option(l2tp.VendorName, []byte("weft"))
	if asked != nil {
		t.respond(m, asked)
	}
	if len(t.secret) > 0 {
		t.challenge = make([]byte, 16)
		t.endpoint.random(t.challenge)
		m.Add(l2tp.Challenge, t.challenge)
	}
	return m
}

// respond answers the peer's challenge.
func (t *Tunnel) respond(m, asked *l2tp.Message) {
	if c, ok := asked.Get(l2tp.Challenge); ok {
		m.Add(l2tp.ChallengeResponse, l2tp.Response(m.Type, t.secret, c))
	}
}

// authenticated reports whether the peer knows the secret (section 5.1.1).
func (t *Tunnel) authenticated(m *l2tp.Message) bool {
	if len(t.challenge) == 0 {
		return true
	}
	got, ok := m.Get(l2tp.ChallengeResponse)
	return ok && hmac.Equal(got, l2tp.Response(m.Type, t.secret, t.challenge))
}

// receive takes a control message.
func (t *Tunnel) receive(h l2tp.Header, body []byte) {
	t.received = t.now()
	if !t.channel.receive(h, len(body) == 0, t.now()) {
		t.flush()
		return
	}
	m, err := l2tp.ParseMessage(body, t.secret)
	over := m != nil && (m.Type == l2tp.StopCCN || m.Type == l2tp.CDN) // they end all the same
	switch {
	case err != nil && !over:
		t.reject(h.Session, m, l2tp.ErrorValue)
	case m.Unknown && !over:
		t.reject(h.Session, m, l2tp.ErrorMandatory)
	case t.state == Closing:
	default:
		t.handle(h.Session, m)
	}
	t.flush()
}

func (t *Tunnel) handle(session uint16, m *l2tp.Message) {
	if session == 0 && m.Type != l2tp.ICRQ {
		t.traced(false, m)
	}
	switch m.Type {
	case l2tp.SCCRP:
		t.receiveSCCRP(m)
	case l2tp.SCCCN:
		t.receiveSCCCN(m)
	case l2tp.StopCCN:
		t.receiveStopCCN(m)
	case l2tp.Hello:
	case l2tp.ICRQ:
		t.receiveICRQ(m)
	case l2tp.OCRQ:
		t.refuseOutgoing(m)
	case l2tp.ICRP, l2tp.ICCN, l2tp.CDN, l2tp.OCRP, l2tp.OCCN, l2tp.WEN, l2tp.SLI:
		if s := t.sessionOf(session, m); s != nil {
			s.handle(m)
		}
	default:
		if !m.Optional {
			t.reject(0, m, l2tp.ErrorMandatory) // section 4.4.1
		}
	}
}

// receiveSCCRP is a client's: the server agrees.
func (t *Tunnel) receiveSCCRP(m *l2tp.Message) {
	id, ok := m.Uint16(l2tp.AssignedTunnelID)
	if t.state != WaitReply || !ok || id == 0 {
		t.Close(l2tp.Result{Code: l2tp.StopState}, ReasonError)
		return
	}
	t.channel.peer = id
	t.host, t.vendor = m.Text(l2tp.HostName), m.Text(l2tp.VendorName)
	t.peerWindow(m)
	if !t.authenticated(m) {
		t.Close(l2tp.Result{Code: l2tp.StopUnauthorized, Text: "tunnel authentication failed: the secrets differ"}, ReasonRefused)
		return
	}
	done := l2tp.New(l2tp.SCCCN)
	t.respond(done, m)
	t.push(0, done)
	t.established()
}

// receiveSCCCN is a server's: the peer has confirmed.
func (t *Tunnel) receiveSCCCN(m *l2tp.Message) {
	if t.state != WaitConnect {
		t.Close(l2tp.Result{Code: l2tp.StopState}, ReasonError)
		return
	}
	if !t.authenticated(m) {
		t.endpoint.stats.Refused++
		t.Close(l2tp.Result{Code: l2tp.StopUnauthorized, Text: "tunnel authentication failed: the secrets differ"}, ReasonRefused)
		return
	}
	t.established()
}

func (t *Tunnel) established() {
	t.proven()
	t.state, t.deadline, t.since, t.wasUp = TunnelUp, time.Time{}, t.now(), true
	t.helloAt = t.now().Add(t.helloEvery())
	t.endpoint.stats.Established++
	t.owner.TunnelEvent(t, Established{})
}

// receiveStopCCN: the peer ends the tunnel, and all in it.
func (t *Tunnel) receiveStopCCN(m *l2tp.Message) {
	if id, ok := m.Uint16(l2tp.AssignedTunnelID); ok && t.channel.peer == 0 {
		t.channel.peer = id // it refuses: so far it had no other chance to say
	}
	t.endSessions(ReasonTunnel, "the peer ended the tunnel: "+m.Why())
	t.enterClosing()
	t.down("the server ended the tunnel: " + m.Why())
}

func (t *Tunnel) enterClosing() {
	t.state, t.helloAt = Closing, time.Time{}
	t.deadline = t.now().Add(closingTime)
	t.noteGone()
}

// noteGone notes for the datapath and the store that the tunnel is over.
func (t *Tunnel) noteGone() {
	e := t.endpoint
	if !t.wasUp {
		return
	}
	e.changes.Gone = append(e.changes.Gone, t.local)
	e.leavingT[t.local] = true
	e.changes.Stored[t.local] = false
}

// Close ends the tunnel from this side (StopCCN).
func (t *Tunnel) Close(r l2tp.Result, why Reason) {
	if t.state == Closing {
		return
	}
	t.endSessions(why, r.Text)
	stop := l2tp.New(l2tp.StopCCN).AddUint16(l2tp.AssignedTunnelID, t.local).AddResult(r)
	t.push(0, stop)
	t.enterClosing()
	t.flush()
	t.down(cmp.Or(r.Text, r.Words(l2tp.StopCCN)))
}

// Fail ends a tunnel whose peer is gone: nothing is sent.
func (t *Tunnel) Fail(text string) {
	t.endSessions(ReasonLost, text)
	t.noteGone()
	t.remove()
	t.down(text)
}

// down says why the tunnel is over.
func (t *Tunnel) down(text string) { t.owner.TunnelEvent(t, Down{text}) }

// abandon is Fail for a peer that has begun a new tunnel.
func (t *Tunnel) abandon(text string) {
	if t.state != Closing {
		t.endSessions(ReasonTunnel, text)
		t.noteGone()
	}
	t.remove()
}

func (t *Tunnel) endSessions(why Reason, text string) {
	ids := make([]uint16, 0, len(t.sessions))
	for id := range t.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t.sessions[id].finish(why, text)
	}
}

func (t *Tunnel) remove() {
	e := t.endpoint
	e.clock.Disarm(t)
	delete(e.tunnels, t.local)
	e.unproven.remove(t)
	if !t.initiator {
		e.unindex(t)
		return
	}
	rest := slices.DeleteFunc(e.asking[t.peer.Addr()], func(o *Tunnel) bool { return o == t })
	if e.asking[t.peer.Addr()] = rest; len(rest) == 0 {
		delete(e.asking, t.peer.Addr())
	}
}
