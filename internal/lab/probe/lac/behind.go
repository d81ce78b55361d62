package lac

import (
	"crypto/md5" //nolint:gosec // RFC 2661 section 5.1.1 knows no other
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Beyond is the control plane of another server, to which a server under test sends
// sessions on as their LAC. It takes every tunnel and every call (RFC 2661 sections 7.2
// and 7.4.2), and says nothing in them.
type Behind struct {
	conn *net.UDPConn

	mu      sync.Mutex
	tunnels map[uint16]*taken // by our id
	byPeer  map[takenKey]*taken
	last    uint16 // session that was given a number
	calls   map[takenKey]uint16
	up      int
}

type takenKey struct {
	tunnel, id uint16 // ours, and the peer's
}

// taken is a tunnel. What was said in it is said again until it is acknowledged.
type taken struct {
	id, peer uint16
	at       netip.AddrPort
	ns, nr   uint16
	unacked  []message
	due      time.Time
}

// ServeBehind is one behind a socket, until that is closed. Its tunnels have the secret
// of RADIUS.
func ServeBehind(conn *net.UDPConn) *Behind {
	b := &Behind{conn: conn, tunnels: map[uint16]*taken{}, byPeer: map[takenKey]*taken{}, calls: map[takenKey]uint16{}}
	go func() {
		buffer := make([]byte, 4096)
		for {
			_ = conn.SetReadDeadline(time.Now().Add(controlFirst / 4))
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			b.mu.Lock()
			if err == nil {
				b.take(buffer[:n], from)
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				b.remind()
			}
			b.mu.Unlock()
		}
	}()
	return b
}

// Up is how many calls stand.
func (b *Behind) Up() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up
}

// take takes a control message with its length (section 3.1); what else comes is data.
func (b *Behind) take(m []byte, from netip.AddrPort) {
	if len(m) < 12 || m[0]&0xc8 != 0xc8 || m[1]&15 != 2 {
		return
	}
	word := func(at int) uint16 { return binary.BigEndian.Uint16(m[at:]) }
	body := m[12:min(int(word(2)), len(m))]
	values := attributes(body)
	t := b.tunnels[word(4)]
	if t == nil {
		if t = b.begin(values, from); t == nil {
			return
		}
	}
	for nr := word(10); len(t.unacked) > 0 && int16(nr-t.unacked[0].ns) > 0; {
		t.unacked = t.unacked[1:]
	}
	if len(body) == 0 {
		return
	}
	if word(8) == t.nr {
		t.nr++
		b.handle(t, word(6), values)
	}
	b.send(t, nil) // an acknowledgement, or what was lost comes with the next reminder
}

// begin finds the tunnel of an SCCRQ.
func (b *Behind) begin(values map[uint16][]byte, from netip.AddrPort) *taken {
	peer := u16Of(values, 9)
	if u16Of(values, 0) != 1 || peer == 0 {
		return nil
	}
	key := takenKey{from.Port(), peer}
	t := b.byPeer[key]
	if t == nil {
		t = &taken{id: uint16(len(b.tunnels) + 1), peer: peer, at: from}
		b.byPeer[key], b.tunnels[t.id] = t, t
	}
	return t
}

func (b *Behind) handle(t *taken, session uint16, values map[uint16][]byte) {
	switch u16Of(values, 0) {
	case 1: // SCCRQ
		list := [][]byte{
			avp(2, []byte{1, 0}), avp(3, []byte{0, 0, 0, 3}), avp(7, []byte("beyond")), avp(9, be16(t.id)), avp(10, be16(window)),
		}
		if challenge, ok := values[11]; ok {
			sum := md5.Sum(append(append([]byte{2}, Secret...), challenge...)) //nolint:gosec // see above
			list = append(list, avp(13, sum[:]))
		}
		b.say(t, 0, 2, list...)
	case 10: // ICRQ
		b.last++
		b.calls[takenKey{t.id, b.last}] = u16Of(values, 14)
		b.say(t, u16Of(values, 14), 11, avp(14, be16(b.last)))
	case 12: // ICCN
		if _, ok := b.calls[takenKey{t.id, session}]; ok {
			b.up++
		}
	case 14: // CDN
		b.up--
	}
}

// say sends a message to the peer's session.
func (b *Behind) say(t *taken, session, kind uint16, avps ...[]byte) {
	m := make([]byte, 12, 128)
	m[0], m[1] = 0xc8, 2
	binary.BigEndian.PutUint16(m[4:], t.peer)
	binary.BigEndian.PutUint16(m[6:], session)
	binary.BigEndian.PutUint16(m[8:], t.ns)
	m = append(m, avp(0, be16(kind))...)
	for _, a := range avps {
		m = append(m, a...)
	}
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	if len(t.unacked) == 0 {
		t.due = time.Now().Add(controlFirst)
	}
	t.unacked = append(t.unacked, message{bytes: m, ns: t.ns})
	t.ns++
	b.send(t, m)
}

// send sends a message with what is acknowledged now; nil: that alone (a ZLB).
func (b *Behind) send(t *taken, m []byte) {
	if m == nil {
		m = []byte{0xc8, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(m[4:], t.peer)
		binary.BigEndian.PutUint16(m[8:], t.ns)
	}
	binary.BigEndian.PutUint16(m[10:], t.nr)
	_, _ = b.conn.WriteToUDPAddrPort(m, t.at)
}

// remind says again what was not acknowledged in time.
func (b *Behind) remind() {
	now := time.Now()
	for _, t := range b.tunnels {
		if len(t.unacked) == 0 || now.Before(t.due) {
			continue
		}
		t.due = now.Add(controlFirst)
		for _, m := range t.unacked {
			b.send(t, m.bytes)
		}
	}
}

// lookBehind counts the sessions that are up where they are sent on to: nothing comes
// from there, and no more has to be said once all are.
func (l *LAC) lookBehind() {
	if l.Behind == nil {
		return
	}
	l.Up = l.Behind.Up()
	l.dial()
	if l.Up < len(l.Sessions) {
		return
	}
	for _, s := range l.Sessions {
		s.state, s.last = running, nil
	}
}
