// Package lac is an L2TP access concentrator with all its subscribers, for
// measurements and labs: any number of sessions, set up as fast as the server
// answers.
package lac

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
)

// LAC sets up tunnels, sessions and PPP with PAP and IPCP, with the fewest messages
// possible. It has its own implementation of the protocols, so that no server is
// measured with its own code. All its sessions come up at once, as after a power
// failure; unanswered messages are retransmitted as in RFC 2661 section 5.8 and RFC
// 1661 section 4.6.
type LAC struct {
	Prefix   string                      // of subscribers' logins
	Realm    string                      // what they end with
	Data     func(s *Session, ip []byte) // receives packets for subscribers; nil: they are discarded
	Ready    func(s *Session)            // called for each session that is up, with the server's last answer; may be nil
	Most     int                         // sessions that are being set up at a time; 0: all
	Progress func(up int)                // called twice a second with the number of sessions that are up; may be nil
	Behind   *Behind                     // nil: sessions end at the server; else it sends them on to there
	Sessions []*Session
	Up       int // sessions that are
	Ended    int // calls that came to nothing, and were begun again
	Again    int // messages that were said more than once

	conn     *net.UDPConn
	tunnels  []*Tunnel
	opened   int // tunnels that were begun
	begun    int // sessions that were called, those that are up among them
	turn     int // of tunnels, the one that calls next
	received time.Time
	now      time.Time
	looked   int // of sessions, the first that is to be reminded next
	buffer   []byte
	failed   error
}

// Tunnel is the control connection (RFC 2661 section 5.8).
type Tunnel struct {
	ID, Peer uint16 // ours, and the server's
	ns, nr   uint16
	window   int
	unacked  []message
	flying   int // of unacked, the first so many are on their way
	opening  int // congestion window (appendix A)
	waiting  []message
	tries    int
	due      time.Time // when the first that is not acknowledged is said again
	open     bool
	ready    []*Session // that are not called yet
	owes     bool       // an acknowledgement

	connected *Session // whom the next message connects
}

type message struct {
	bytes []byte
	ns    uint16
	begin *Session // its PPP begins when the server has the message
}

// Session is one subscriber.
type Session struct {
	ID, Peer   uint16 // ours, and the server's
	Addr       [4]byte
	tunnel     *Tunnel
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
	controlFirst = time.Second // until a control message is said again, twice as long each time
	controlMost  = 8 * time.Second
	controlTries = 10
	restart      = 3 * time.Second // of PPP
	pppTries     = 10              // Max-Configure
	window       = 1024
	endedMax     = 1000
	// a server that is busy with others acknowledges late: the peer is lost when nothing
	// comes from it in any tunnel
	silence     = 30 * time.Second
	notifyEvery = 500 * time.Millisecond
)

// Tunnel returns the tunnel of a session.
func (s *Session) Tunnel() *Tunnel { return s.tunnel }

// Address returns the subscriber's.
func (s *Session) Address() netip.Addr { return netip.AddrFrom4(s.Addr) }

// Dial returns a socket for a concentrator at here.
func Dial(here, server netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(here), net.UDPAddrFromAddrPort(server))
	if err != nil {
		return nil, fmt.Errorf("open the concentrator's socket: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		})
	}
	return conn, err
}

// New makes a concentrator of a socket.
func New(conn *net.UDPConn, tunnels, sessions int) *LAC {
	l := &LAC{Prefix: "s", conn: conn, buffer: make([]byte, 4096)}
	for i := range tunnels {
		l.tunnels = append(l.tunnels, &Tunnel{ID: uint16(i + 1), window: 4, opening: 1})
	}
	for i := range sessions {
		l.Sessions = append(l.Sessions, &Session{ID: uint16(i + 1), tunnel: l.tunnels[i%tunnels]})
	}
	return l
}

// Given is a session that a server has without anybody having set it up; it has the
// same id at both ends, as its tunnel has.
func Given(tunnel, id uint16, addr netip.Addr) *Session {
	return &Session{ID: id, Peer: id, Addr: addr.As4(), tunnel: &Tunnel{ID: tunnel, Peer: tunnel}}
}

// TunnelsFor is how many tunnels so many sessions come in.
func TunnelsFor(sessions int) int { return min(64, 1+sessions/500) }

// Close ends the tunnels, and with them all sessions.
func (l *LAC) Close() error {
	l.now = time.Now()
	for _, t := range l.tunnels {
		if t.open {
			l.control(t, 0, 4, avp(9, be16(t.ID)), avp(1, be16(1)))
		}
	}
	for range 20 {
		if l.read(50*time.Millisecond) != nil || l.quiet() {
			break
		}
		l.remind()
	}
	return l.conn.Close()
}

// Abandon is a loss of power: nothing is said to the server.
func (l *LAC) Abandon() error { return l.conn.Close() }

func (l *LAC) quiet() bool {
	for _, t := range l.tunnels {
		if len(t.unacked)+len(t.waiting) > 0 {
			return false
		}
	}
	return true
}

// BringUp sets up all sessions and tells how long that took.
func (l *LAC) BringUp(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	l.now, l.received = start, start
	notified := start
	for _, s := range l.Sessions {
		s.tunnel.ready = append(s.tunnel.ready, s)
	}
	l.openNext()
	for l.Up < len(l.Sessions) {
		if err := l.Turn(50 * time.Millisecond); err != nil {
			return 0, err
		}
		l.lookBehind()
		if ctx.Err() != nil {
			return 0, fmt.Errorf("set up %d sessions: %d are up: %w", len(l.Sessions), l.Up, context.Cause(ctx))
		}
		if l.Progress != nil && l.now.Sub(notified) >= notifyEvery {
			notified = l.now
			l.Progress(l.Up)
		}
	}
	return time.Since(start), nil
}

// Turn takes what has come, waits a while if that is nothing, and repeats what
// was not answered.
func (l *LAC) Turn(wait time.Duration) error {
	if err := l.read(wait); err != nil {
		return err
	}
	l.now = time.Now()
	l.remind()
	return l.failed
}

// Tend answers what the server has said since the last turn, as long as there is
// something.
func (l *LAC) Tend() error {
	for {
		l.now = time.Now()
		before := l.now
		if err := l.Turn(time.Millisecond); err != nil || l.received.Before(before) {
			return err
		}
	}
}

// openNext begins the next tunnel (SCCRQ): one at a time, as there are servers that take
// a second one from the same peer for the first one said again.
func (l *LAC) openNext() {
	if l.opened == len(l.tunnels) {
		return
	}
	t := l.tunnels[l.opened]
	l.opened++
	l.control(t, 0, 1, avp(2, []byte{1, 0}), avp(3, []byte{0, 0, 0, 3}), avp(4, []byte{0, 0, 0, 0}),
		avp(7, fmt.Appendf(nil, "lac%d", t.ID)), avp(9, be16(t.ID)), avp(10, be16(window)))
}

// dial begins as many calls as may be, one tunnel after the other.
func (l *LAC) dial() {
	for missed := 0; missed < len(l.tunnels) && (l.Most == 0 || l.begun-l.Up < l.Most); {
		t := l.tunnels[l.turn]
		l.turn = (l.turn + 1) % len(l.tunnels)
		if !t.open || len(t.ready) == 0 {
			missed++
			continue
		}
		s := t.ready[0]
		t.ready = t.ready[1:]
		l.begun++
		l.call(s)
		missed = 0
	}
}

func (l *LAC) call(s *Session) {
	s.state = calling
	l.control(s.tunnel, 0, 10, avp(14, be16(s.ID)), avp(15, binary.BigEndian.AppendUint32(nil, uint32(s.ID))))
}

// again sets a session up again.
func (l *LAC) again(s *Session) {
	if l.Ended++; l.Ended > len(l.Sessions)+endedMax {
		l.failed = fmt.Errorf("%d calls failed, the last one, %d, in stage %d", l.Ended, s.ID, s.state)
		return
	}
	s.ours, s.theirs, s.last, s.Addr = false, false, nil, [4]byte{}
	l.call(s)
}

// read takes what has come; without anything it waits a while.
func (l *LAC) read(wait time.Duration) error {
	_ = l.conn.SetReadDeadline(time.Now().Add(wait))
	defer l.acknowledge()
	raw, err := l.conn.SyscallConn()
	for i := 0; i < readMost && err == nil; i++ {
		n, failed := 0, error(nil)
		err = raw.Read(func(fd uintptr) bool {
			n, failed = unix.Read(int(fd), l.buffer)
			return i > 0 || !errors.Is(failed, unix.EAGAIN) // it waits for the first alone
		})
		switch {
		case err != nil:
		case failed == nil:
			l.received = l.now
			l.take(l.buffer[:n])
		case errors.Is(failed, unix.EAGAIN), errors.Is(failed, unix.ECONNREFUSED):
			return nil // no more, or the server is not there yet or was restarted
		default:
			err = failed
		}
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("read at the concentrator: %w", err)
}

// readMost is how many datagrams are taken until it is looked whether something
// has to be said again.
const readMost = 64

func (l *LAC) send(b []byte) { _, _ = l.conn.Write(b) }

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// avp is a mandatory attribute (section 4.1).
func avp(kind uint16, value []byte) []byte {
	b := be16(0x8000 | uint16(6+len(value)))
	b = append(b, 0, 0)
	return append(binary.BigEndian.AppendUint16(b, kind), value...)
}

// control queues a control message to the server's session and sends what the
// window lets.
func (l *LAC) control(t *Tunnel, session uint16, kind uint16, avps ...[]byte) {
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

func (l *LAC) flush(t *Tunnel) {
	may := min(t.opening, t.window)
	for ; t.flying < min(len(t.unacked), may); t.flying++ {
		l.Again++
		l.transmit(t, t.unacked[t.flying].bytes, t.unacked[t.flying].ns)
	}
	for len(t.waiting) > 0 && len(t.unacked) < may {
		m := t.waiting[0]
		t.waiting = t.waiting[1:]
		m.ns = t.ns
		if len(t.unacked) == 0 {
			t.tries, t.due = 0, l.now.Add(controlFirst)
		}
		t.unacked = append(t.unacked, m)
		t.flying++
		l.transmit(t, m.bytes, m.ns)
		t.ns++
	}
}

func (l *LAC) transmit(t *Tunnel, b []byte, ns uint16) {
	t.owes = false
	binary.BigEndian.PutUint16(b[4:], t.Peer)
	binary.BigEndian.PutUint16(b[8:], ns)
	binary.BigEndian.PutUint16(b[10:], t.nr)
	l.send(b)
}

// lookAt is how many sessions are looked at in one turn.
const lookAt = 512

// remind says again what was not answered in time: the first message of each
// tunnel, which tells whether the others are missing too, and PPP's requests.
func (l *LAC) remind() {
	for _, t := range l.tunnels {
		if len(t.unacked) == 0 || l.now.Before(t.due) {
			continue
		}
		if t.tries++; t.tries > controlTries && l.now.Sub(l.received) > silence {
			l.failed = fmt.Errorf("the server does not acknowledge messages of tunnel %d", t.ID)
		}
		t.due = l.now.Add(min(controlFirst<<min(t.tries, controlTries), controlMost))
		l.Again++
		t.opening, t.flying = 1, 1
		l.transmit(t, t.unacked[0].bytes, t.unacked[0].ns)
	}
	for range min(lookAt, len(l.Sessions)) {
		s := l.Sessions[l.looked]
		l.looked = (l.looked + 1) % len(l.Sessions)
		if s.state <= calling || s.state == running || s.last == nil || l.now.Sub(s.sent) < restart {
			continue
		}
		if s.tries++; s.tries >= pppTries {
			// as a subscriber would: hang up, and dial again
			l.control(s.tunnel, s.Peer, 14, avp(1, be16(1)), avp(14, be16(s.ID)))
			l.again(s)
			continue
		}
		s.sent = l.now
		l.Again++
		l.send(s.last)
	}
}
