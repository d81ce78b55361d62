package access

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weft/internal/timer"
	"weft/wire/l2tp"
)

// World is what the engine needs of others. Calls come while the engine works:
// they must not call back.
type World interface {
	// Send sends a datagram.
	Send(here, peer netip.AddrPort, b []byte)
	// Deliver gives the stack a packet that came from a subscriber.
	Deliver(access int, ip []byte)
	// Reply gives the stack an error that this router makes.
	Reply(access int, ip []byte)
	// Number takes the next sequence number of a session that the programs carry;
	// false: there are none.
	Number(session uint16) (uint16, bool)
	// Ask wants to know who somebody is; the answer comes by Engine.Answer.
	Ask(Question)
	// Dial wants a socket to a client's server; the answer comes by
	// Engine.Dialed or Engine.NotDialed.
	Dial(client string)
}

// Engine holds all tunnels and sessions. It is pure: it is fed datagrams,
// answers and the time, and used by one goroutine at a time.
type Engine struct {
	world  World
	hosts  Hosts
	random func([]byte)
	clock  timer.Queue

	servers map[string]*server
	clients map[string]*client

	tunnels  map[uint16]*tunnel
	byPeer   map[peerKey]*tunnel
	sessions map[uint16]*session
	nextT    uint16
	nextS    uint16
	leaving  leaving
	serial   uint64
	pending  pending
	stats    Stats
	ended    []*Ended // the last ones, in a ring
	endedAt  int
	watches  map[int]*watch
	onwards  map[string]*onward
}

// peerKey finds the tunnel of a peer that repeats its first message.
type peerKey struct {
	peer netip.AddrPort
	id   uint16
}

// Stats counts what is not counted with a tunnel or a session.
type Stats struct {
	Malformed  uint64 `json:"malformed"`   // datagrams that are no L2TP
	Unknown    uint64 `json:"unknown"`     // for tunnels or sessions that are not there
	Strangers  uint64 `json:"strangers"`   // from another address than the tunnel's peer
	Refused    uint64 `json:"refused"`     // tunnels
	Accepted   uint64 `json:"accepted"`    // logins
	Rejected   uint64 `json:"rejected"`    // logins
	NoAddress  uint64 `json:"no_address"`  // logins that found no free address
	NoPrefix   uint64 `json:"no_prefix"`   // logins that got less IPv6 than they should: a pool was empty
	Spoofed    uint64 `json:"spoofed"`     // packets in the slow path with another's source
	Garden     uint64 `json:"garden"`      // packets in the slow path that the walled garden does not let pass
	NoSession  uint64 `json:"no_session"`  // packets in the slow path to nobody
	Duplicates uint64 `json:"duplicates"`  // logins that were there already
	TunnelsNew uint64 `json:"tunnels_new"` // established
}

// NewEngine makes an engine without sections.
func NewEngine(w World, h Hosts, random func([]byte)) *Engine {
	e := &Engine{
		world: w, hosts: h, random: random, servers: map[string]*server{}, clients: map[string]*client{},
		tunnels: map[uint16]*tunnel{}, byPeer: map[peerKey]*tunnel{}, sessions: map[uint16]*session{},
		leaving: leaving{tunnels: map[uint16]bool{}, sessions: map[uint16]bool{}},
	}
	var b [4]byte
	random(b[:])
	e.nextT, e.nextS = uint16(b[0])<<8|uint16(b[1]), uint16(b[2])<<8|uint16(b[3])
	e.pending.clear()
	return e
}

// Due is when Tick has something to do; zero: never.
func (e *Engine) Due() time.Time {
	return e.clock.Due()
}

// Tick does what is due.
func (e *Engine) Tick(now time.Time) {
	e.clock.Tick(now)
}

// Receive takes a datagram.
func (e *Engine) Receive(here, from netip.AddrPort, b []byte, now time.Time) {
	e.clock.Set(now)
	h, rest, err := l2tp.Parse(b)
	switch {
	case err != nil:
		e.stats.Malformed++
	case h.Control && h.Tunnel == 0:
		e.invited(here, from, h, rest)
	case h.Control:
		e.control(from, h, rest)
	default:
		e.data(from, h, rest)
	}
}

func (e *Engine) control(from netip.AddrPort, h l2tp.Header, body []byte) {
	t := e.tunnels[h.Tunnel]
	if t == nil {
		e.stats.Unknown++
		return
	}
	if from != t.peer {
		// a server may answer from another port (RFC 2661 section 8.1)
		if t.state != tunnelWaitReply || from.Addr() != t.peer.Addr() {
			e.stats.Strangers++
			return
		}
		t.peer = from
	}
	t.receive(h, body)
}

func (e *Engine) data(from netip.AddrPort, h l2tp.Header, frame []byte) {
	s := e.sessions[h.Session]
	if s == nil || s.tunnel.local != h.Tunnel || s.state != sessionUp {
		e.stats.Unknown++
		return
	}
	if from != s.tunnel.peer {
		e.stats.Strangers++
		return
	}
	s.numbered(h.Sequenced)
	s.receiveFrame(frame)
	e.clock.Arm(s)
}

// freeID gives an id that nobody has; those that were in use lately come last.
func freeID[T any](next *uint16, used map[uint16]T, leaving map[uint16]bool) (uint16, bool) {
	for range 65536 {
		*next++
		if _, taken := used[*next]; *next != 0 && !taken && !leaving[*next] {
			return *next, true
		}
	}
	return 0, false
}

// Set makes the sections those of a configuration. Sessions of sections that
// stay go on; what is new holds for new ones.
func (e *Engine) Set(servers []ServerSettings, clients []ClientSettings, now time.Time) {
	e.clock.Set(now)
	keep := map[string]bool{}
	for _, s := range servers {
		keep[s.Name] = true
		if old, ok := e.servers[s.Name]; ok {
			e.follow(old, s)
		} else {
			e.servers[s.Name] = newServer(s)
		}
	}
	for name, s := range e.servers {
		if !keep[name] {
			e.closeTunnels(func(t *tunnel) bool { return t.server == s }, l2tp.Result{Code: l2tp.StopShutDown, Text: "no longer served"})
			delete(e.servers, name)
		}
	}
	keep = map[string]bool{}
	for _, c := range clients {
		keep[c.Name] = true
		if old, ok := e.clients[c.Name]; ok && old.same(c) {
			old.ClientSettings = c
			continue
		} else if ok {
			e.dropClient(old)
		}
		n := &client{ClientSettings: c, engine: e, retryAt: now}
		e.clients[c.Name] = n
		e.clock.Arm(n)
	}
	for name, c := range e.clients {
		if !keep[name] {
			e.dropClient(c)
		}
	}
}

func (e *Engine) dropClient(c *client) {
	e.clock.Disarm(c)
	delete(e.clients, c.Name)
	if s := c.session; s != nil {
		s.hangUp(ReasonAdmin, "no longer wanted")
	}
	e.closeTunnels(func(t *tunnel) bool { return t.client == c }, l2tp.Result{Code: l2tp.StopRequested, Text: "no longer wanted"})
}

func (e *Engine) closeTunnels(which func(*tunnel) bool, r l2tp.Result) {
	for _, t := range e.sortedTunnels() {
		if which(t) {
			t.close(r, ReasonAdmin)
		}
	}
}

func (e *Engine) sortedTunnels() []*tunnel {
	list := make([]*tunnel, 0, len(e.tunnels))
	for _, t := range e.tunnels {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *tunnel) int { return cmp.Compare(a.local, b.local) })
	return list
}

// Waits tells whether somebody still waits for the answer to a question.
func (e *Engine) Waits(q Question) bool {
	s := e.sessions[q.Session]
	return s != nil && s.question == q.Serial && q.Serial != 0
}

// Answer is what Ask led to. A session that is no more, or asks something else
// by now, takes no notice.
func (e *Engine) Answer(q Question, v Verdict, now time.Time) {
	e.clock.Set(now)
	if e.Waits(q) {
		s := e.sessions[q.Session]
		s.decide(q.Credentials, v)
		e.clock.Arm(s)
	}
}

// Stats gives what was counted.
func (e *Engine) Stats() Stats { return e.stats }

// HasTunnel and HasSession tell what is known here.
func (e *Engine) HasTunnel(id uint16) bool  { return e.tunnels[id] != nil }
func (e *Engine) HasSession(id uint16) bool { return e.sessions[id] != nil }

// Addresses gives the local addresses of all tunnels.
func (e *Engine) Addresses() map[netip.AddrPort]bool {
	m := map[netip.AddrPort]bool{}
	for _, t := range e.tunnels {
		m[t.here] = true
	}
	return m
}
