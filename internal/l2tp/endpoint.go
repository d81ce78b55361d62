// Package l2tp is the control connection of L2TPv2 (RFC 2661), both as network server
// (LNS) and as access concentrator (LAC): reliable delivery (section 5.8), tunnels and
// their authentication (5.1), hidden AVPs (4.3), the Tie Breaker (4.4.3), calls (5.2),
// proxy LCP and authentication (4.4.5), and the sequence numbers of data (5.4). It is
// pure: it is fed datagrams and the time, and asks its Host, the Owner of each tunnel and
// the User of each session. It knows nothing of PPP, subscribers and sections.
package l2tp

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weft/internal/limit"
	"weft/internal/timer"
	"weft/wire/l2tp"
)

// Host is what an endpoint needs of the router. Calls come while the endpoint works: they
// must not call back.
type Host interface {
	// Send sends a datagram.
	Send(local, peer netip.AddrPort, b []byte)
	// Authorize finds out whether a peer that calls itself hostName may set up a tunnel
	// (SCCRQ), and how.
	Authorize(local netip.AddrPort, peer netip.Addr, hostName string) (Config, bool)
}

// Config is how this end of a tunnel behaves.
type Config struct {
	Owner    Owner
	HostName string // that this end gives
	Secret   string // empty: the tunnel is not authenticated
	Hide     bool   // AVPs are hidden, if there is a secret
	Hello    time.Duration
}

// Owner is who a tunnel is for. It may use the tunnel and its sessions in its calls.
type Owner interface {
	// Call takes an incoming call (ICRQ) with Tunnel.NewSession, or refuses it.
	Call(t *Tunnel, m *l2tp.Message) (*Session, *l2tp.Result)
	// TunnelEvent says what has become of a tunnel: Trace, Established or Down.
	TunnelEvent(t *Tunnel, e Event)
}

// User is who a session is for. It may use the session in its calls.
type User interface {
	// Frame takes a frame of PPP.
	Frame(frame []byte)
	// SessionEvent says what has become of a session: Trace, Answered, Connected, Notified
	// or Sequencing.
	SessionEvent(e Event)
	// SessionEnded says that the session is over.
	SessionEnded(why Reason, text string)
}

// Event is what an Owner or a User receives; its types follow.
type Event any

// Trace is a control message that was sent or received.
type Trace struct {
	Sent    bool
	Message *l2tp.Message
}

// Established says that a tunnel is up.
type Established struct{}

// Down says why a tunnel is over.
type Down struct{ Text string }

// Answered says that the peer takes a call (ICRP): Session.Connect goes on.
type Answered struct{}

// Notified is what the peer reports of the line: WEN with Call Errors, SLI with an ACCM.
type Notified struct {
	Type  l2tp.MessageType
	Value []byte
}

// Sequencing says that data is numbered from now on, or not any more.
type Sequencing struct{}

// Reason is why a session is over. An owner or user that closes one may give its own.
type Reason string

const (
	ReasonRequested Reason = "requested" // nothing needs it any more
	ReasonPeer      Reason = "peer"      // the peer ended it
	ReasonTimeout   Reason = "no-answer" // no answer in time
	ReasonLost      Reason = "lost"      // the peer is gone
	ReasonError     Reason = "error"     // a message was not valid
	ReasonRefused   Reason = "refused"   // the peer does not know the secret
	ReasonTunnel    Reason = "tunnel"    // the tunnel ended
)

// Endpoint holds all tunnels and sessions. It is used by one goroutine at a time; the
// time is that of the clock.
type Endpoint struct {
	host   Host
	clock  *timer.Queue
	random func([]byte)
	nextS  uint16

	tunnels  map[uint16]*Tunnel
	byPeer   map[peerKey][]*Tunnel
	asking   map[netip.Addr][]*Tunnel // those that this end asked for, by the peer's address
	unproven unproven
	refused  limit.Bucket
	sessions map[uint16]*Session
	// ids of what is gone, and is in the datapath as long as it was not removed there: a
	// new tunnel or session with such an id would be removed with it
	leavingT map[uint16]bool
	leavingS map[uint16]bool
	changes  Changes
	stats    Stats
}

// peerKey finds the tunnel of a peer that repeats its first message.
type peerKey struct {
	peer netip.AddrPort
	id   uint16
}

// Stats counts what is not counted with a tunnel or a session.
type Stats struct {
	Malformed   uint64 // datagrams that are no L2TP
	Unknown     uint64 // for tunnels or sessions that are not there
	WrongPeer   uint64 // from another address than the tunnel's peer
	Refused     uint64 // tunnels
	Discarded   uint64 // tunnels that their peers never confirmed
	Established uint64 // tunnels
}

// Changes is what has become of tunnels since TakeChanges.
type Changes struct {
	Stored map[uint16]bool // what is kept of these is another now; false: they are gone
	Gone   []uint16
}

// New makes an endpoint without tunnels.
func New(host Host, clock *timer.Queue, random func([]byte)) *Endpoint {
	e := &Endpoint{
		host: host, clock: clock, random: random, tunnels: map[uint16]*Tunnel{}, byPeer: map[peerKey][]*Tunnel{}, sessions: map[uint16]*Session{},
		leavingT: map[uint16]bool{}, leavingS: map[uint16]bool{}, asking: map[netip.Addr][]*Tunnel{},
		unproven: unproven{peers: map[netip.Addr]*unprovenPeer{}}, changes: Changes{Stored: map[uint16]bool{}},
	}
	e.nextS = e.anyID()
	return e
}

// Receive takes a datagram.
func (e *Endpoint) Receive(local, from netip.AddrPort, b []byte) {
	h, rest, err := l2tp.Parse(b)
	switch {
	case err != nil:
		e.stats.Malformed++
	case h.Control && h.Tunnel == 0:
		e.requested(local, from, h, rest)
	case h.Control:
		e.control(from, h, rest)
	default:
		e.data(from, h, rest)
	}
}

func (e *Endpoint) control(from netip.AddrPort, h l2tp.Header, body []byte) {
	t := e.tunnels[h.Tunnel]
	if t == nil {
		e.stats.Unknown++
		return
	}
	if from == t.peer {
		t.receive(h, body)
		return
	}
	// a server may answer from another port (RFC 2661 section 8.1): from then on it has that
	// one, if its answer was right
	if kind, _, err := l2tp.Peek(body); t.state != WaitReply || from.Addr() != t.peer.Addr() || err != nil || kind != l2tp.SCCRP && kind != l2tp.StopCCN {
		e.stats.WrongPeer++
		return
	}
	was := t.peer
	t.peer = from
	if t.receive(h, body); t.state == WaitReply {
		t.peer = was
	}
}

func (e *Endpoint) data(from netip.AddrPort, h l2tp.Header, frame []byte) {
	s := e.sessions[h.Session]
	if s == nil || s.tunnel.local != h.Tunnel || s.state != SessionUp {
		e.stats.Unknown++
		return
	}
	if from != s.tunnel.peer {
		e.stats.WrongPeer++
		return
	}
	if s.numbered(h.Sequenced) {
		s.user.SessionEvent(Sequencing{})
	}
	s.user.Frame(frame)
}

// freeID returns an id from id on that is not in use, nor was lately.
func freeID[T any](id uint16, used map[uint16]T, leaving map[uint16]bool) (uint16, bool) {
	for range 65536 {
		if _, taken := used[id]; id != 0 && !taken && !leaving[id] {
			return id, true
		}
		id++
	}
	return 0, false
}

// tunnelID returns a free id that cannot be guessed from those of before: who does not see
// the packets must not be able to name a tunnel, and so none of its sessions either.
func (e *Endpoint) tunnelID() (uint16, bool) { return freeID(e.anyID(), e.tunnels, e.leavingT) }

// sessionID returns the next free id. The programs find sessions by it: in a row they lie
// in fewer pages and cache lines (an eighth more packets a second with 1,000 sessions).
func (e *Endpoint) sessionID() (uint16, bool) {
	id, ok := freeID(e.nextS, e.sessions, e.leavingS)
	e.nextS = id + 1
	return id, ok
}

func (e *Endpoint) anyID() uint16 {
	var b [2]byte
	e.random(b[:])
	return uint16(b[0])<<8 | uint16(b[1])
}

// Connect asks a peer for a tunnel (SCCRQ); false: no id is free.
func (e *Endpoint) Connect(local, peer netip.AddrPort, c Config) (*Tunnel, bool) {
	id, ok := e.tunnelID()
	if !ok {
		return nil, false
	}
	now := e.clock.Now()
	t := &Tunnel{
		endpoint: e, owner: c.Owner, initiator: true, hostName: c.HostName, hello: c.Hello, local: id, here: local, peer: peer, state: WaitReply,
		channel: newChannel(0), secret: []byte(c.Secret), hide: c.Hide, sessions: map[uint16]*Session{}, since: now, received: now,
		deadline: now.Add(handshakeTime),
	}
	e.tunnels[id], e.asking[peer.Addr()] = t, append(e.asking[peer.Addr()], t)
	t.push(0, t.setupMessage(l2tp.SCCRQ, nil))
	t.flush()
	return t, true
}

// Tunnel and Session give what has an id; nil: nothing does.
func (e *Endpoint) Tunnel(id uint16) *Tunnel   { return e.tunnels[id] }
func (e *Endpoint) Session(id uint16) *Session { return e.sessions[id] }

// Tunnels gives all, by their ids.
func (e *Endpoint) Tunnels() []*Tunnel {
	list := make([]*Tunnel, 0, len(e.tunnels))
	for _, t := range e.tunnels {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Tunnel) int { return cmp.Compare(a.local, b.local) })
	return list
}

// Stats returns what was counted.
func (e *Endpoint) Stats() Stats { return e.stats }

// Changed reports whether TakeChanges has something to give.
func (e *Endpoint) Changed() bool { return len(e.changes.Stored)+len(e.changes.Gone) > 0 }

// TakeChanges returns what has become of tunnels since the last time.
func (e *Endpoint) TakeChanges() Changes {
	c := e.changes
	e.changes = Changes{Stored: map[uint16]bool{}}
	return c
}

// Released says that ids of what is gone may be used again.
func (e *Endpoint) Released(tunnels, sessions []uint16) {
	for _, id := range tunnels {
		delete(e.leavingT, id)
	}
	for _, id := range sessions {
		delete(e.leavingS, id)
	}
}
