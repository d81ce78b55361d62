package lns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// lac is an access concentrator with all its subscribers: it sets up tunnels,
// sessions and PPP with PAP and IPCP, as fast as the server answers, and says
// nothing that is not needed for that. What it speaks it writes by itself, so
// that no server is measured with its own code.
type lac struct {
	conn      *net.UDPConn
	tunnels   []*tunnel
	sessions  []*session
	next      int // of sessions, the first not begun
	going, up int
	ended     int // by the server, and begun again
	now       time.Time
	buffer    []byte
	failed    error
}

// tunnel is the control connection (RFC 2661 section 5.8).
type tunnel struct {
	id, peer uint16
	ns, nr   uint16
	window   int
	unacked  []message
	waiting  []message
	open     bool
	ready    []*session // that wait for it to open

	connected *session // whom the next message connects
}

type message struct {
	bytes []byte
	ns    uint16
	sent  time.Time
	begin *session // its PPP begins when the server has the message
}

// session is one subscriber.
type session struct {
	id, peer   uint16 // of the session: ours, and the server's
	tunnel     *tunnel
	addr       [4]byte
	state      stage
	ours       bool // the server has acknowledged our LCP
	theirs     bool // and we its
	last       []byte
	sent       time.Time
	tries      int
	ppp        uint8 // identifier of our last request
	pppAddress bool
}

type stage uint8

const (
	idle stage = iota
	calling
	linking
	authenticating
	addressing
	running
)

const (
	again     = 500 * time.Millisecond // until something is said once more
	triesMax  = 40
	inFlight  = 4096 // sessions that are set up at a time
	ourWindow = 1024
	endedMax  = 1000
)

// newLAC opens the concentrator's socket in a namespace.
func newLAC(in *netspace.Space, here, server netip.AddrPort, tunnels, sessions int) (*lac, error) {
	l := &lac{buffer: make([]byte, 4096)}
	err := in.Do(func() (err error) {
		l.conn, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(here), net.UDPAddrFromAddrPort(server))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the concentrator's socket: %w", err)
	}
	raw, err := l.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		})
	}
	for i := range tunnels {
		l.tunnels = append(l.tunnels, &tunnel{id: uint16(i + 1), window: 4})
	}
	for i := range sessions {
		l.sessions = append(l.sessions, &session{id: uint16(i + 1), tunnel: l.tunnels[i%tunnels]})
	}
	return l, err
}

// Close ends the tunnels, and with them all sessions.
func (l *lac) Close() error {
	for _, t := range l.tunnels {
		if t.open {
			l.control(t, 0, 4, avp(9, be16(t.id)), avp(1, be16(1)))
		}
	}
	l.now = time.Now()
	for range 20 {
		if l.read(50*time.Millisecond) != nil {
			break
		}
		if l.quiet() {
			break
		}
		l.remind()
	}
	return l.conn.Close()
}

func (l *lac) quiet() bool {
	for _, t := range l.tunnels {
		if len(t.unacked)+len(t.waiting) > 0 {
			return false
		}
	}
	return true
}

// bringUp sets up all sessions and tells how long that took.
func (l *lac) bringUp(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	l.now = start
	for _, t := range l.tunnels {
		l.control(t, 0, 1, avp(2, []byte{1, 0}), avp(3, []byte{0, 0, 0, 3}), avp(4, []byte{0, 0, 0, 0}),
			avp(7, fmt.Appendf(nil, "lac%d", t.id)), avp(9, be16(t.id)), avp(10, be16(ourWindow)))
	}
	reminded := start
	for l.up < len(l.sessions) && l.failed == nil {
		for l.going < inFlight && l.next < len(l.sessions) {
			l.begin(l.sessions[l.next])
			l.next++
		}
		if err := l.read(50 * time.Millisecond); err != nil {
			return 0, err
		}
		if l.now = time.Now(); l.now.Sub(reminded) > again/4 {
			reminded = l.now
			l.remind()
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("set up %d sessions: %d are up: %w", len(l.sessions), l.up, context.Cause(ctx))
		}
	}
	return time.Since(start), l.failed
}

func (l *lac) begin(s *session) {
	l.going++
	if !s.tunnel.open {
		s.tunnel.ready = append(s.tunnel.ready, s)
		return
	}
	l.call(s)
}

func (l *lac) call(s *session) {
	s.state = calling
	l.control(s.tunnel, 0, 10, avp(14, be16(s.id)), avp(15, binary.BigEndian.AppendUint32(nil, uint32(s.id))))
}

// read takes what has come; without anything it waits a while.
func (l *lac) read(wait time.Duration) error {
	_ = l.conn.SetReadDeadline(time.Now().Add(wait))
	for range 64 {
		n, err := l.conn.Read(l.buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil // the server is not there yet, or was restarted
		}
		if err != nil {
			return fmt.Errorf("read at the concentrator: %w", err)
		}
		l.take(l.buffer[:n])
	}
	return nil
}

func (l *lac) send(b []byte) { _, _ = l.conn.Write(b) }

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// avp is a mandatory attribute (section 4.1).
func avp(kind uint16, value []byte) []byte {
	b := be16(0x8000 | uint16(6+len(value)))
	b = append(b, 0, 0)
	return append(binary.BigEndian.AppendUint16(b, kind), value...)
}

// control queues a control message to the server's session and sends what the
// window lets.
func (l *lac) control(t *tunnel, session uint16, kind uint16, avps ...[]byte) {
	b := make([]byte, 12, 128)
	b[0], b[1] = 0xc8, 2
	binary.BigEndian.PutUint16(b[6:], session)
	b = append(b, avp(0, be16(kind))...)
	for _, a := range avps {
		b = append(b, a...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	t.waiting = append(t.waiting, message{bytes: b, begin: t.connected})
	t.connected = nil
	l.flush(t)
}

func (l *lac) flush(t *tunnel) {
	for len(t.waiting) > 0 && len(t.unacked) < t.window {
		m := t.waiting[0]
		t.waiting = t.waiting[1:]
		m.ns, m.sent = t.ns, l.now
		t.unacked = append(t.unacked, m)
		l.transmit(t, m.bytes, m.ns)
		t.ns++
	}
}

func (l *lac) transmit(t *tunnel, b []byte, ns uint16) {
	binary.BigEndian.PutUint16(b[4:], t.peer)
	binary.BigEndian.PutUint16(b[8:], ns)
	binary.BigEndian.PutUint16(b[10:], t.nr)
	l.send(b)
}

// remind says again what was not answered.
func (l *lac) remind() {
	for _, t := range l.tunnels {
		for i := range t.unacked {
			if m := &t.unacked[i]; l.now.Sub(m.sent) > again {
				m.sent = l.now
				l.transmit(t, m.bytes, m.ns)
			}
		}
	}
	for _, s := range l.sessions[:l.next] {
		if s.state > calling && s.state < running && s.last != nil && l.now.Sub(s.sent) > again {
			if s.tries++; s.tries > triesMax {
				l.failed = fmt.Errorf("session %d does not come up: the server does not answer in stage %d", s.id, s.state)
			}
			s.sent = l.now
			l.send(s.last)
		}
	}
}

// take takes one datagram of the server's.
func (l *lac) take(b []byte) {
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
	if len(b) >= at && sessionID != 0 && int(sessionID) <= len(l.sessions) {
		l.takePPP(l.sessions[sessionID-1], b[at:])
	}
}

// takeControl: acknowledgement, order, and then what it says.
func (l *lac) takeControl(t *tunnel, sessionID, ns, nr uint16, body []byte) {
	for len(t.unacked) > 0 && int16(nr-t.unacked[0].ns) > 0 {
		if s := t.unacked[0].begin; s != nil && s.state == calling {
			s.state = linking
			l.request(s, lcp, []byte{5, 6, 0x77, 0x65, byte(s.id >> 8), byte(s.id)})
		}
		t.unacked = t.unacked[1:]
	}
	l.flush(t)
	if len(body) == 0 {
		return // ZLB
	}
	if ns != t.nr {
		l.acknowledge(t)
		return
	}
	t.nr++
	values := map[uint16][]byte{}
	for len(body) >= 6 {
		n := int(binary.BigEndian.Uint16(body) & 0x3ff)
		if n < 6 || n > len(body) {
			return
		}
		values[binary.BigEndian.Uint16(body[4:])] = body[6:n]
		body = body[n:]
	}
	u16 := func(kind uint16) uint16 {
		if v := values[kind]; len(v) == 2 {
			return binary.BigEndian.Uint16(v)
		}
		return 0
	}
	switch u16(0) {
	case 2: // SCCRP
		t.peer = u16(9)
		if w := u16(10); w > 0 {
			t.window = min(int(w), ourWindow)
		}
		t.open = true
		l.control(t, 0, 3)
		for _, s := range t.ready {
			l.call(s)
		}
		t.ready = nil
	case 4: // StopCCN
		l.failed = fmt.Errorf("the server ended tunnel %d: %x", t.id, values[1])
	case 11: // ICRP
		if sessionID == 0 || int(sessionID) > len(l.sessions) {
			break
		}
		s := l.sessions[sessionID-1]
		s.peer = u16(14)
		t.connected = s
		l.control(t, s.peer, 12, avp(24, []byte{0, 0x98, 0x96, 0x80}), avp(19, []byte{0, 0, 0, 1}))
		return
	case 14: // CDN
		if sessionID == 0 || int(sessionID) > len(l.sessions) {
			break
		}
		s := l.sessions[sessionID-1]
		if l.ended++; s.state == running || l.ended > endedMax {
			l.failed = fmt.Errorf("the server ended session %d in stage %d, %d in all: %q", sessionID, s.state, l.ended, values[1])
			break
		}
		s.ours, s.theirs, s.last, s.addr = false, false, nil, [4]byte{}
		l.call(s) // as a subscriber would: once more
	}
	l.acknowledge(t)
}

// acknowledge sends a ZLB, unless what is on its way says it too.
func (l *lac) acknowledge(t *tunnel) {
	b := []byte{0xc8, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0}
	l.transmit(t, b, t.ns)
}
