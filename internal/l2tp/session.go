package l2tp

import (
	"encoding/binary"
	"time"

	"weft/internal/timer"
	"weft/wire/l2tp"
)

// SessionState is that of a call (RFC 2661 sections 7.4 and 7.5).
type SessionState uint8

const (
	SessionWaitReply   SessionState = iota // LAC: ICRQ is sent
	SessionWaitConnect                     // LNS: ICRP is sent
	SessionUp
	SessionGone
)

// Session is one call.
type Session struct {
	tunnel   *Tunnel
	user     User
	local    uint16
	remote   uint16
	state    SessionState
	sequence bool   // data carries sequence numbers
	required bool   // whatever the server does (Sequencing Required)
	received bool   // what comes from the server carries them
	ns       uint16 // of the next
	deadline time.Time
	slot     timer.Slot
}

// Slot, Due and Tick are for the clock.
func (s *Session) Slot() *timer.Slot { return &s.slot }
func (s *Session) Due() time.Time    { return s.deadline }

func (s *Session) Tick(time.Time) {
	const text = "the call was not set up in time"
	s.Close(l2tp.Result{Code: l2tp.CallTimeout, Text: text}, ReasonTimeout, text)
}

// NewSession makes a session in the tunnel: Owner.Call gives it for an incoming call, and
// Session.Request asks the peer for one. nil: no id is free.
func (t *Tunnel) NewSession(user User) *Session {
	e := t.endpoint
	local, ok := e.sessionID()
	if !ok {
		return nil
	}
	s := &Session{tunnel: t, user: user, local: local, state: SessionWaitConnect, deadline: t.now().Add(handshakeTime)}
	if t.initiator {
		s.state = SessionWaitReply
	}
	e.sessions[local], t.sessions[local] = s, s
	return s
}

// receiveICRQ is the LNS's: a LAC has a subscriber (ICRQ).
func (t *Tunnel) receiveICRQ(m *l2tp.Message) {
	remote, ok := m.Uint16(l2tp.AssignedSessionID)
	switch {
	case t.crowded():
		return // its call ends by its own clock
	case t.state != TunnelUp || t.initiator:
		t.refuseCall(remote, l2tp.Result{Code: l2tp.CallNever, Text: "this side accepts no calls"})
		return
	case !ok || remote == 0:
		t.refuseCall(remote, l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorValue})
		return
	}
	t.reuseCall(remote)
	s, refusal := t.owner.Call(t, m)
	if refusal != nil {
		t.refuseCall(remote, *refusal)
		return
	}
	s.remote = remote
	t.setCall(remote, s)
	s.traced(false, m)
	s.push(l2tp.New(l2tp.ICRP).AddUint16(l2tp.AssignedSessionID, s.local))
	t.endpoint.clock.Arm(s)
}

// Request asks the peer to take a call (ICRQ).
func (s *Session) Request(serial uint32, calling, called string) {
	m := l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, s.local).AddUint32(l2tp.CallSerialNumber, serial)
	if calling != "" {
		m.Add(l2tp.CallingNumber, []byte(calling))
	}
	if called != "" {
		m.Add(l2tp.CalledNumber, []byte(called))
	}
	s.push(m)
	s.tunnel.flush()
	s.tunnel.endpoint.clock.Arm(s)
}

// Connect says that the call stands (ICCN).
func (s *Session) Connect(c Connected) {
	if c.Sequencing {
		s.sequence, s.required = true, true
	}
	s.push(c.message())
	s.tunnel.flush() // before the first frame
	s.opened()
}

func (s *Session) opened() {
	s.state, s.deadline = SessionUp, time.Time{}
	s.tunnel.endpoint.clock.Arm(s)
}

func (s *Session) traced(sent bool, m *l2tp.Message) { s.user.SessionEvent(Trace{sent, m}) }

// push sends a message about this session.
func (s *Session) push(m *l2tp.Message) {
	s.traced(true, m)
	s.tunnel.push(s.remote, m)
}

// handle takes a message about this session.
func (s *Session) handle(m *l2tp.Message) {
	s.traced(false, m)
	switch {
	case m.Type == l2tp.CDN:
		s.finish(ReasonPeer, "the peer ended the call: "+m.Why())
	case m.Type == l2tp.ICCN && s.state == SessionWaitConnect:
		c := parseConnected(m)
		s.sequence = c.Sequencing
		s.opened()
		s.user.SessionEvent(c)
	case m.Type == l2tp.ICRP && s.state == SessionWaitReply:
		id, ok := m.Uint16(l2tp.AssignedSessionID)
		if !ok || id == 0 {
			s.Close(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorValue}, ReasonError, "the server gives no session")
			return
		}
		s.remote = id
		s.user.SessionEvent(Answered{})
	case m.Type == l2tp.WEN || m.Type == l2tp.SLI:
		if value, ok := m.Get(notice(m.Type)); ok {
			s.user.SessionEvent(Notified{m.Type, value})
		}
	default:
		s.Close(l2tp.Result{Code: l2tp.CallError, Error: l2tp.ErrorNone, Text: m.Type.String() + " is out of order"}, ReasonError, m.Type.String()+" is out of order")
	}
}

// notice is the attribute that a message about the line is for.
func notice(t l2tp.MessageType) l2tp.Attribute {
	if t == l2tp.WEN {
		return l2tp.CallErrors
	}
	return l2tp.ACCM
}

// Notify says something of the line: WEN or SLI (sections 6.13 and 6.14).
func (s *Session) Notify(n Notified) {
	s.push(l2tp.New(n.Type).Add(notice(n.Type), n.Value))
	s.tunnel.flush()
}

// SetACCM tells the LAC which characters are to be escaped on its line (SLI).
func (s *Session) SetACCM(send, receive uint32) {
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, send)
	s.Notify(Notified{l2tp.SLI, binary.BigEndian.AppendUint32(value, receive)})
}

// numbered notes whether a frame was: the LAC numbers its data if the server does, and
// ceases when it does, unless it was agreed to be so for ever (section 5.4). It tells
// whether that has changed.
func (s *Session) numbered(received bool) bool {
	if !s.tunnel.initiator || received == s.received {
		return false
	}
	s.received, s.sequence = received, received || s.required
	return true
}

// Send sends a frame, with the next number if data is numbered.
func (s *Session) Send(frame []byte) {
	if s.sequence {
		s.ns++
		s.SendNumbered(s.ns-1, frame)
		return
	}
	t := s.tunnel
	t.send(l2tp.AppendData(make([]byte, 0, len(frame)+10), t.channel.peer, s.remote, frame))
}

// SendNumbered sends a frame with a number that is counted elsewhere.
func (s *Session) SendNumbered(n uint16, frame []byte) {
	t := s.tunnel
	t.send(l2tp.AppendSequenced(make([]byte, 0, len(frame)+10), t.channel.peer, s.remote, n, frame))
}

// Close takes the call down (CDN).
func (s *Session) Close(r l2tp.Result, why Reason, text string) {
	if s.state == SessionGone {
		return
	}
	t := s.tunnel
	if t.state == TunnelUp {
		s.push(l2tp.New(l2tp.CDN).AddResult(r).AddUint16(l2tp.AssignedSessionID, s.local))
	}
	s.finish(why, text)
	if t.state != Closing {
		t.flush()
	}
}

// finish forgets the session.
func (s *Session) finish(why Reason, text string) {
	if s.state == SessionGone {
		return
	}
	t := s.tunnel
	e := t.endpoint
	s.state = SessionGone
	e.clock.Disarm(s)
	delete(e.sessions, s.local)
	delete(t.sessions, s.local)
	t.removeCall(s)
	e.leavingS[s.local] = true
	s.user.SessionEnded(why, text)
}

// Local and Remote are the ids at both ends.
func (s *Session) Local() uint16  { return s.local }
func (s *Session) Remote() uint16 { return s.remote }

// State is that of the call.
func (s *Session) State() SessionState { return s.state }

// Tunnel is that of the session.
func (s *Session) Tunnel() *Tunnel { return s.tunnel }

// Sequenced reports whether data that is sent is numbered, Numbered whether what comes from
// the server is, and Next gives the number of the next frame.
func (s *Session) Sequenced() bool { return s.sequence }
func (s *Session) Numbered() bool  { return s.received }
func (s *Session) Next() uint16    { return s.ns }
