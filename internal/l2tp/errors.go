package l2tp

import (
	"net/netip"

	"weft/wire/l2tp"
)

// What peers say that makes no sense, comes too early, or asks for what there is
// not (RFC 2661 sections 4.1, 4.4.3 and 7.1).

// reject ends what a bad message is about: the session, the call that it
// asks for, else the tunnel. m is what could be read of it, nil if nothing could.
func (t *Tunnel) reject(session uint16, m *l2tp.Message, code uint16) {
	if t.state == Closing {
		return
	}
	if s := t.sessions[session]; s != nil {
		s.Close(l2tp.Result{Code: l2tp.CallError, Error: code}, ReasonError, "a message makes no sense")
		return
	}
	if session != 0 {
		return
	}
	if m != nil && (m.Type == l2tp.ICRQ || m.Type == l2tp.OCRQ) {
		// one call that is not understood does not end those of others
		if id, ok := m.Uint16(l2tp.AssignedSessionID); ok && id != 0 {
			t.refuseCall(id, l2tp.Result{Code: l2tp.CallError, Error: code})
			return
		}
	}
	t.Close(l2tp.Result{Code: l2tp.StopError, Error: code}, ReasonError)
}

// refuseCall answers a call that gets no session; remote is the peer's number.
func (t *Tunnel) refuseCall(remote uint16, r l2tp.Result) {
	if t.crowded() {
		return // its call ends by its own clock
	}
	t.push(remote, l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, 0))
}

// refuseOutgoing refuses a call that is to go out: there is no line to dial on.
func (t *Tunnel) refuseOutgoing(m *l2tp.Message) {
	id, _ := m.Uint16(l2tp.AssignedSessionID)
	t.refuseCall(id, l2tp.Result{Code: l2tp.CallNever, Text: "outgoing calls are not supported"})
}

// sessionOf finds the session of a message. A peer that ends a call before
// it knows our id sends its own (section 4.4.3, Assigned Session ID).
func (t *Tunnel) sessionOf(session uint16, m *l2tp.Message) *Session {
	if s := t.sessions[session]; s != nil || session != 0 || m.Type != l2tp.CDN {
		return s
	}
	id, _ := m.Uint16(l2tp.AssignedSessionID)
	return t.sessions[t.calls[id]]
}

// setCall notes which session has an id of the peer's.
func (t *Tunnel) setCall(remote uint16, s *Session) {
	if t.calls == nil {
		t.calls = map[uint16]uint16{}
	}
	t.calls[remote] = s.local
}

// reuseCall ends the session that has an id which the peer uses for a new call: it has
// forgotten the old one, whose data would reach another subscriber. No CDN is sent, which
// would end the new call.
func (t *Tunnel) reuseCall(remote uint16) {
	if old := t.sessions[t.calls[remote]]; old != nil {
		old.finish(ReasonLost, "the LAC has forgotten the call: its number is another one's")
	}
}

func (t *Tunnel) removeCall(s *Session) {
	if t.calls[s.remote] == s.local {
		delete(t.calls, s.remote)
	}
}

// cancelled takes the end of a tunnel from a peer that does not know our number
// yet: it says its own (section 4.4.3, Assigned Tunnel ID).
func (e *Endpoint) cancelled(from netip.AddrPort, h l2tp.Header, body []byte) {
	m, err := l2tp.ParseMessage(body, nil)
	if err != nil {
		e.stats.Malformed++
		return
	}
	id, _ := m.Uint16(l2tp.AssignedTunnelID)
	for _, t := range e.byPeer[peerKey{from, id}] {
		if t.state != TunnelUp { // the peer of one that stands knows our number
			t.receive(h, body)
			return
		}
	}
	e.stats.Unknown++
}
