package subscriber

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weft/internal/l2tp"
	"weft/internal/limit"
	"weft/internal/timer"
	wirel2tp "weft/wire/l2tp"
)

// Backend is what the engine needs of the router. Calls come while the engine works:
// they must not call back.
type Backend interface {
	// Send sends a datagram.
	Send(here, peer netip.AddrPort, b []byte)
	// Deliver gives the stack a packet that came from a subscriber.
	Deliver(access int, ip []byte)
	// Reply gives the stack an error that this router makes.
	Reply(access int, ip []byte)
	// Number takes the next sequence number of a session that the programs carry;
	// false: there are none.
	Number(session uint16) (uint16, bool)
	// Authenticate asks RADIUS, or whatever knows a subscriber; the answer comes by
	// Engine.Answer.
	Authenticate(AuthRequest)
	// Dial wants a socket to a client's server; the answer comes by
	// Engine.Dialed or Engine.NotDialed.
	Dial(client string)
}

// Engine holds all tunnels and sessions. It is pure: it is fed datagrams,
// answers and the time, and used by one goroutine at a time.
type Engine struct {
	backend Backend
	hosts   HostResponder
	random  func([]byte)
	clock   timer.Queue

	servers map[string]*server
	clients map[string]*client

	l2tp     *l2tp.Endpoint
	sessions map[uint16]*session
	serial   uint64
	pending  pending
	logins   logins
	errors   limit.Bucket // of ICMP
	stats    Stats
	ended    []*Ended // the last ones, in a ring
	endedAt  int
	watches  map[int]*watch
	switches map[string]*switchTunnel
}

// Stats counts what is not counted with a tunnel or a session.
type Stats struct {
	Malformed    uint64 `json:"malformed"`          // datagrams that are no L2TP
	Unknown      uint64 `json:"unknown"`            // for tunnels or sessions that are not there
	Outsiders    uint64 `json:"unauthorized_peers"` // from another address than the tunnel's peer
	Refused      uint64 `json:"refused"`            // tunnels
	Accepted     uint64 `json:"accepted"`           // logins
	Rejected     uint64 `json:"rejected"`           // logins
	NoAddress    uint64 `json:"no_address"`         // logins that found no free address
	NoPrefix     uint64 `json:"no_prefix"`          // logins that got less IPv6 than they should: a pool was empty
	Spoofed      uint64 `json:"spoofed"`            // packets in the slow path with another's source
	WalledGarden uint64 `json:"walled_garden"`      // packets in the slow path that the walled garden does not let pass
	NoSession    uint64 `json:"no_session"`         // packets in the slow path without a session
	Duplicates   uint64 `json:"duplicates"`         // logins that were there already
	TunnelsNew   uint64 `json:"tunnels_new"`        // established
	Unproven     uint64 `json:"unproven"`           // tunnels that their peers never confirmed
	Unsent       uint64 `json:"unsent"`             // datagrams that found no room in the socket: a neighbour does not answer
}

// NewEngine makes an engine without sections.
func NewEngine(w Backend, h HostResponder, random func([]byte)) *Engine {
	e := &Engine{
		backend: w, hosts: h, random: random, servers: map[string]*server{}, clients: map[string]*client{}, sessions: map[uint16]*session{},
	}
	e.l2tp = l2tp.New(engineHost{e}, &e.clock, random)
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
	e.l2tp.Receive(here, from, b)
}

// Set makes the sections those of a configuration. Sessions of sections that
// stay go on; what is new holds for new ones.
func (e *Engine) Set(servers []ServerSettings, clients []ClientSettings, now time.Time) {
	e.clock.Set(now)
	keep := map[string]bool{}
	for _, s := range servers {
		keep[s.Name] = true
		if old, ok := e.servers[s.Name]; ok {
			e.updateServer(old, s)
		} else {
			e.servers[s.Name] = newServer(s)
		}
	}
	for name, s := range e.servers {
		if !keep[name] {
			e.closeTunnels(func(t *tunnel) bool { return t.server == s }, wirel2tp.Result{Code: wirel2tp.StopShutDown, Text: "no longer served"})
			delete(e.servers, name)
		}
	}
	keep = map[string]bool{}
	for _, c := range clients {
		keep[c.Name] = true
		if old, ok := e.clients[c.Name]; ok && old.same(c) {
			old.ClientSettings = c
			if old.tunnel != nil {
				old.tunnel.SetHello(c.Keepalive)
			}
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
	e.closeTunnels(func(t *tunnel) bool { return t.client == c }, wirel2tp.Result{Code: wirel2tp.StopRequested, Text: "no longer wanted"})
}

// Waits reports whether a session still waits for the answer to a request.
func (e *Engine) Waits(q AuthRequest) bool {
	s := e.sessions[q.Session]
	return s != nil && s.question == q.Serial && q.Serial != 0
}

// Answer is what Ask led to. A session that is no more, or asks something else
// by now, takes no notice.
func (e *Engine) Answer(q AuthRequest, v AuthReply, now time.Time) {
	e.clock.Set(now)
	if e.Waits(q) {
		s := e.sessions[q.Session]
		s.applyReply(q.Credentials, v)
		e.clock.Arm(s)
	}
}

// Stats returns what was counted.
func (e *Engine) Stats() Stats {
	s, l := e.stats, e.l2tp.Stats()
	s.Malformed, s.Unknown, s.Outsiders = s.Malformed+l.Malformed, l.Unknown, l.WrongPeer
	s.Refused, s.TunnelsNew, s.Unproven = l.Refused, l.Established, l.Discarded
	return s
}

// HasTunnel and HasSession tell what is known here.
func (e *Engine) HasTunnel(id uint16) bool  { return e.l2tp.Tunnel(id) != nil }
func (e *Engine) HasSession(id uint16) bool { return e.sessions[id] != nil }

// Addresses returns the local addresses of all tunnels.
func (e *Engine) Addresses() map[netip.AddrPort]bool {
	m := map[netip.AddrPort]bool{}
	for _, t := range e.l2tp.Tunnels() {
		m[t.LocalAddr()] = true
	}
	return m
}

func (e *Engine) sortedServers() []*server {
	list := make([]*server, 0, len(e.servers))
	for _, s := range e.servers {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *server) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
