package subscriber

import (
	"encoding/hex"
	"net/netip"
	"slices"

	"weft/internal/l2tp"
	"weft/internal/ppp"
	"weft/internal/state"
	"weft/internal/subscriber/history"
	wirel2tp "weft/wire/l2tp"
)

// tunnel is who an L2TP tunnel is for: a section, or subscribers of another server's.
type tunnel struct {
	*l2tp.Tunnel
	engine   *Engine
	server   *server // nil: it is a client's
	client   *client
	toServer *switchTunnel // it leads to another server
	outdated bool          // a client's, of a process before that had other settings
	lac      string        // the peer's name in the configuration
	history  history.Log   // of messages about the tunnel itself
}

// engineHost is the engine as its L2TP endpoint sees it.
type engineHost struct{ *Engine }

func (h engineHost) Send(local, peer netip.AddrPort, b []byte) { h.backend.Send(local, peer, b) }

// Authorize finds the section and the LAC of a peer that asks for a tunnel.
func (h engineHost) Authorize(local netip.AddrPort, peer netip.Addr, hostName string) (l2tp.Config, bool) {
	srv, lac := h.lacOf(local, peer, hostName)
	if srv == nil {
		return l2tp.Config{}, false
	}
	t := &tunnel{engine: h.Engine, server: srv, lac: lac.Name}
	return l2tp.Config{Owner: t, HostName: srv.HostName, Secret: lac.Secret, Hide: lac.Hide, Hello: srv.Hello}, true
}

// lacOf finds who a peer is.
func (e *Engine) lacOf(here netip.AddrPort, from netip.Addr, host string) (*server, *LAC) {
	for _, s := range e.sortedServers() {
		if !slices.Contains(s.Listen, here) {
			continue
		}
		var best *LAC
		for i := range s.LACs {
			l := &s.LACs[i]
			if !l.Address.Contains(from) || l.HostName != "" && l.HostName != host {
				continue
			}
			if best == nil || l.Address.Bits() > best.Address.Bits() || l.Address.Bits() == best.Address.Bits() && best.HostName == "" {
				best = l
			}
		}
		if best != nil {
			return s, best
		}
	}
	return nil, nil
}

// connect asks a server for a tunnel.
func (t *tunnel) connect(here, peer netip.AddrPort, c l2tp.Config) bool {
	c.Owner = t
	_, ok := t.engine.l2tp.Connect(here, peer, c)
	return ok
}

// TunnelEvent takes what has become of the tunnel.
func (t *tunnel) TunnelEvent(l *l2tp.Tunnel, e l2tp.Event) {
	t.Tunnel = l
	switch e := e.(type) {
	case l2tp.Trace:
		t.history.L2TP(e.Sent, e.Message, t.engine.clock.Now())
	case l2tp.Established:
		t.engine.pending.tunnels[l.Local()] = true
		switch {
		case t.toServer != nil:
			t.toServer.tunnelUp()
		case t.client != nil:
			t.client.tunnelUp(t)
		}
	case l2tp.Down:
		if t.client != nil {
			t.client.tunnelDown(t, e.Text)
		}
		if t.toServer != nil {
			t.toServer.tunnelDown(t, e.Text)
		}
	}
}

// Call takes a subscriber's call.
func (t *tunnel) Call(l *l2tp.Tunnel, m *wirel2tp.Message) (*l2tp.Session, *wirel2tp.Result) {
	full := &wirel2tp.Result{Code: wirel2tp.CallNoFacilities, Text: "all sessions are in use"}
	if t.server.MaxSessions > 0 && t.server.count >= t.server.MaxSessions {
		return nil, full
	}
	s := t.newSession()
	if s == nil {
		return nil, full
	}
	t.server.count++
	s.call = Call{
		Calling: m.Text(wirel2tp.CallingNumber), Called: m.Text(wirel2tp.CalledNumber), LAC: l.Peer(), LNS: l.LocalAddr(),
		LACName: t.lac,
	}
	s.call.Serial, _ = m.Uint32(wirel2tp.CallSerialNumber)
	return s.l2tp, nil
}

// newSession makes a session in the tunnel; nil: no id is free.
func (t *tunnel) newSession() *session {
	e := t.engine
	s := &session{engine: e, tunnel: t, since: e.clock.Now(), accm: ppp.DefaultACCM}
	if s.l2tp = t.NewSession(l2tpUser{s}); s.l2tp == nil {
		return nil
	}
	s.local, s.id = s.l2tp.Local(), e.identity()
	e.sessions[s.local] = s
	return s
}

// asState is what the datapath needs.
func (t *tunnel) asState() state.L2TPTunnel {
	return state.L2TPTunnel{Local: t.Local(), Remote: t.Remote(), LocalAddr: t.LocalAddr(), Peer: t.Peer()}
}

// tunnels gives all, by their ids.
func (e *Engine) tunnels() []*tunnel {
	list := e.l2tp.Tunnels()
	mine := make([]*tunnel, len(list))
	for i, t := range list {
		mine[i] = t.Owner().(*tunnel)
	}
	return mine
}

func (e *Engine) closeTunnels(which func(*tunnel) bool, r wirel2tp.Result) {
	for _, t := range e.tunnels() {
		if which(t) {
			t.Close(r, l2tp.Reason(ReasonAdmin))
		}
	}
}

// identity makes up what a session is called in accounting.
func (e *Engine) identity() string {
	var b [8]byte
	e.random(b[:])
	return hex.EncodeToString(b[:])
}
