package access

import (
	"net/netip"

	"weft/wire/l2tp"
)

// What peers say that makes no sense, comes too early, or asks for what there is
// not (RFC 2661 sections 4.1, 4.4.3 and 7.1).

// misunderstood ends what a bad message is about: the session, the call that it
// asks for, else the tunnel. m is what could be read of it, nil if nothing could.
func (t *tunnel) misunderstood(session uint16, m *l2tp.Message, code uint16) {
	if t.state == tunnelClosing {
		return
	}
	if s := t.sessions[session]; s != nil {
		s.close(l2tp.Result{Code: l2tp.CallError, Error: code}, ReasonError, "a message makes no sense")
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
	t.close(l2tp.Result{Code: l2tp.StopError, Error: code}, ReasonError)
}

// refuseCall answers a call that gets no session; remote is the peer's number.
func (t *tunnel) refuseCall(remote uint16, r l2tp.Result) {
	t.push(remote, l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, 0))
}

// notDialling refuses a call that is to go out: there is no line to dial on.
func (t *tunnel) notDialling(m *l2tp.Message) {
	id, _ := m.Uint16(l2tp.AssignedSessionID)
	t.refuseCall(id, l2tp.Result{Code: l2tp.CallNever, Text: "there is nothing to dial with"})
}

// about finds the session of a message. A peer that hangs up before it knows our
// number says its own (section 4.4.3, Assigned Session ID).
func (t *tunnel) about(session uint16, m *l2tp.Message) *session {
	if s := t.sessions[session]; s != nil || session != 0 || m.Type != l2tp.CDN {
		return s
	}
	id, _ := m.Uint16(l2tp.AssignedSessionID)
	return t.sessions[t.calls[id]]
}

// callIs notes which session a call of the peer's is. A number that it uses again
// is one of a call that it has forgotten: what goes to that would reach somebody
// else.
func (t *tunnel) callIs(remote uint16, s *session) {
	if t.calls == nil {
		t.calls = map[uint16]uint16{}
	}
	t.calls[remote] = s.local
}

// callAgain ends what was there under a number that is used for a new call. The
// peer is not told: it would end the new one.
func (t *tunnel) callAgain(remote uint16) {
	if old := t.sessions[t.calls[remote]]; old != nil {
		old.finish(ReasonLost, "the LAC has forgotten the call: its number is another one's")
	}
}

func (t *tunnel) callOver(s *session) {
	if t.calls[s.remote] == s.local {
		delete(t.calls, s.remote)
	}
}

// withdrawn takes the end of a tunnel from a peer that does not know our number
// yet: it says its own (section 4.4.3, Assigned Tunnel ID).
func (e *Engine) withdrawn(from netip.AddrPort, h l2tp.Header, body []byte) {
	m, err := l2tp.ParseMessage(body, nil)
	if err != nil {
		e.stats.Malformed++
		return
	}
	id, _ := m.Uint16(l2tp.AssignedTunnelID)
	t := e.byPeer[peerKey{from, id}]
	if t == nil || t.state == tunnelUp { // one that stands knows our number
		e.stats.Unknown++
		return
	}
	t.receive(h, body)
}
