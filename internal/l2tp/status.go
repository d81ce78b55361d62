package l2tp

import (
	"net/netip"
	"time"
)

// TunnelStatus is what is known of a tunnel.
type TunnelStatus struct {
	Local, Remote   uint16
	State           TunnelState
	LocalAddr, Peer netip.AddrPort
	Host, Vendor    string // of the peer
	Sessions        int
	Ns, Nr          uint16
	Waiting         int // messages that are not acknowledged
	Window          int // of the peer
	Congestion      int // window
	Tries           int // retransmissions of the message that waits
	Hidden          bool
	Authenticated   bool
	Since           time.Time
	Received        time.Time // last control message
	NextHello       time.Time
}

// Status returns what is known of the tunnel.
func (t *Tunnel) Status() TunnelStatus {
	c := &t.channel
	return TunnelStatus{
		Local: t.local, Remote: c.peer, State: t.state, LocalAddr: t.here, Peer: t.peer, Host: t.host, Vendor: t.vendor, Sessions: len(t.sessions),
		Ns: c.ns, Nr: c.nr, Waiting: len(c.sent) + len(c.waiting), Window: c.window, Congestion: c.opening, Tries: c.tries,
		Hidden: t.hide, Authenticated: len(t.secret) > 0, Since: t.since, Received: t.received, NextHello: t.helloAt,
	}
}

// Local and Remote are the ids at both ends.
func (t *Tunnel) Local() uint16  { return t.local }
func (t *Tunnel) Remote() uint16 { return t.channel.peer }

// Here and Peer are the addresses of both ends.
func (t *Tunnel) LocalAddr() netip.AddrPort { return t.here }
func (t *Tunnel) Peer() netip.AddrPort      { return t.peer }

// State is that of the control connection.
func (t *Tunnel) State() TunnelState { return t.state }

// Owner is who the tunnel is for.
func (t *Tunnel) Owner() Owner { return t.owner }

// Idle reports whether no session is in the tunnel.
func (t *Tunnel) Idle() bool { return len(t.sessions) == 0 }

// Unanswered reports whether the first message was repeated, and nothing has come.
func (t *Tunnel) Unanswered() bool {
	return t.state == WaitReply && t.now().Sub(t.since) >= 2*retransmitFirst
}
