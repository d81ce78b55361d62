package lac

import (
	"encoding/binary"
	"fmt"
)

// take takes one datagram of the server's.
func (l *LAC) take(b []byte) {
	if len(b) < 6 {
		return
	}
	flags, at := binary.BigEndian.Uint16(b), 2
	if flags&15 != 2 {
		return
	}
	if flags&0x4000 != 0 {
		at += 2
	}
	if len(b) < at+4 {
		return
	}
	tunnelID, sessionID := binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
	at += 4
	if flags&0x8000 != 0 {
		if tunnelID != 0 && int(tunnelID) <= len(l.tunnels) && len(b) >= at+4 {
			l.takeControl(l.tunnels[tunnelID-1], sessionID, binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:]), b[at+4:])
		}
		return
	}
	if flags&0x0800 != 0 {
		at += 4
	}
	if flags&0x0200 != 0 && len(b) >= at+2 {
		at += 2 + int(binary.BigEndian.Uint16(b[at:]))
	}
	if len(b) >= at && sessionID != 0 && int(sessionID) <= len(l.Sessions) {
		l.takePPP(l.Sessions[sessionID-1], b[at:])
	}
}

// takeControl: acknowledgement, order, and then what it says.
func (l *LAC) takeControl(t *Tunnel, sessionID, ns, nr uint16, body []byte) {
	for len(t.unacked) > 0 && int16(nr-t.unacked[0].ns) > 0 {
		if s := t.unacked[0].begin; s != nil && s.state == calling {
			s.state = linking
			l.request(s, lcp, []byte{5, 6, 0x77, 0x65, byte(s.ID >> 8), byte(s.ID)})
		}
		t.unacked = t.unacked[1:]
		t.flying, t.opening = max(t.flying-1, 0), t.opening+1
		t.tries, t.due = 0, l.now.Add(controlFirst)
	}
	known := len(body) == 0 || ns != t.nr // a ZLB, or something that was said before
	if t.owes = t.owes || len(body) > 0; !known {
		t.nr++ // first of all: what the window lets go now says so
	}
	l.flush(t)
	if known {
		return
	}
	values := attributes(body)
	u16 := func(kind uint16) uint16 { return u16Of(values, kind) }
	switch u16(0) {
	case 2: // SCCRP
		t.Peer = u16(9)
		if w := u16(10); w > 0 {
			t.window = min(int(w), window)
		}
		t.open = true
		l.control(t, 0, 3)
		l.openNext()
		l.dial()
	case 4: // StopCCN
		l.failed = fmt.Errorf("the server ended tunnel %d: %x", t.ID, values[1])
	case 11: // ICRP
		if sessionID == 0 || int(sessionID) > len(l.Sessions) {
			break
		}
		s := l.Sessions[sessionID-1]
		s.Peer = u16(14)
		t.connected = s
		l.control(t, s.Peer, 12, avp(24, []byte{0, 0x98, 0x96, 0x80}), avp(19, []byte{0, 0, 0, 1}))
	case 14: // CDN
		if sessionID == 0 || int(sessionID) > len(l.Sessions) {
			break
		}
		s := l.Sessions[sessionID-1]
		if s.state == running {
			l.failed = fmt.Errorf("the server ended session %d, which was up: %q", sessionID, values[1])
			break
		}
		l.again(s)
	}
}

// attributes reads AVPs (section 4.1), as far as they make sense.
func attributes(body []byte) map[uint16][]byte {
	values := map[uint16][]byte{}
	for len(body) >= 6 {
		n := int(binary.BigEndian.Uint16(body) & 0x3ff)
		if n < 6 || n > len(body) {
			break
		}
		values[binary.BigEndian.Uint16(body[4:])] = body[6:n]
		body = body[n:]
	}
	return values
}

func u16Of(values map[uint16][]byte, kind uint16) uint16 {
	if v := values[kind]; len(v) == 2 {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

// acknowledge sends a ZLB in each tunnel without a message in flight that
// acknowledges: messages that wait for the server's window do not, and some servers
// wait for the acknowledgement before they send more.
func (l *LAC) acknowledge() {
	for _, t := range l.tunnels {
		if t.owes {
			l.transmit(t, []byte{0xc8, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0}, t.ns)
		}
	}
}
