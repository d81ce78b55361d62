package l2tp

import (
	"net/netip"
	"time"
)

// TunnelSnapshot is what is kept of a tunnel for the next process.
type TunnelSnapshot struct {
	Local     uint16         `json:"local"`
	Remote    uint16         `json:"remote"`
	LocalAddr netip.AddrPort `json:"here"`
	Peer      netip.AddrPort `json:"peer"`
	Ns        uint16         `json:"ns"`
	Nr        uint16         `json:"nr"`
	Window    int            `json:"window"`
	Host      string         `json:"host"`
	Vendor    string         `json:"vendor"`
	Hide      bool           `json:"hide,omitempty"`
	Secret    []byte         `json:"secret,omitempty"`
	First     []byte         `json:"first,omitempty"`
	Since     time.Time      `json:"since"`
}

// Snapshot returns what is to be kept of the tunnel; false: it is not up.
func (t *Tunnel) Snapshot() (TunnelSnapshot, bool) {
	return TunnelSnapshot{
		Local: t.local, Remote: t.channel.peer, LocalAddr: t.here, Peer: t.peer, Ns: t.channel.ns, Nr: t.channel.nr, Window: t.channel.window,
		Host: t.host, Vendor: t.vendor, Hide: t.hide, Secret: t.secret, First: t.first[:], Since: t.since,
	}, t.state == TunnelUp
}

// RestoreTunnel goes on with a tunnel of the process before. Its peer is asked soon whether
// it is still there. Of c, secret and hiding are those of the snapshot; initiator: this end
// had asked for the tunnel. nil: there is one with this id.
func (e *Endpoint) RestoreTunnel(k TunnelSnapshot, c Config, initiator bool) *Tunnel {
	if e.tunnels[k.Local] != nil {
		return nil
	}
	t := &Tunnel{
		endpoint: e, owner: c.Owner, initiator: initiator, hostName: c.HostName, hello: c.Hello, local: k.Local, here: k.LocalAddr, peer: k.Peer, state: TunnelUp, wasUp: true,
		channel: newChannel(k.Remote), secret: k.Secret, hide: k.Hide, host: k.Host, vendor: k.Vendor, sessions: map[uint16]*Session{}, since: k.Since,
	}
	copy(t.first[:], k.First)
	t.channel.ns, t.channel.nr, t.channel.restored = k.Ns, k.Nr, true
	t.channel.setWindow(uint16(k.Window))
	e.tunnels[k.Local] = t
	if !initiator {
		e.index(t)
	}
	t.helloAt = t.now().Add(time.Second)
	e.clock.Arm(t)
	return t
}

// Drop notes that a tunnel of the process before does not go on: its peer's messages are
// not answered (RFC 2661 section 5.5).
func (e *Endpoint) Drop(local uint16) {
	e.changes.Stored[local] = false
	e.changes.Gone = append(e.changes.Gone, local)
}

// SessionSnapshot is what is kept of a session for the next process.
type SessionSnapshot struct {
	Local    uint16 `json:"local"`
	Remote   uint16 `json:"remote"`
	Tunnel   uint16 `json:"tunnel"`
	Sequence bool   `json:"sequence,omitempty"`
	Required bool   `json:"required,omitempty"`
	Received bool   `json:"heard,omitempty"`
}

// Snapshot returns what is to be kept of the session.
func (s *Session) Snapshot() SessionSnapshot {
	return SessionSnapshot{s.local, s.remote, s.tunnel.local, s.sequence, s.required, s.received}
}

// RestoreSession goes on with a session of the process before. nil: its tunnel is not
// there, or there is one with this id.
func (e *Endpoint) RestoreSession(k SessionSnapshot, user User) *Session {
	t := e.tunnels[k.Tunnel]
	if t == nil || e.sessions[k.Local] != nil {
		return nil
	}
	s := &Session{tunnel: t, user: user, local: k.Local, remote: k.Remote, state: SessionUp, sequence: k.Sequence, required: k.Required, received: k.Received}
	e.sessions[k.Local], t.sessions[k.Local] = s, s
	if !t.initiator {
		t.setCall(k.Remote, s)
	}
	return s
}
