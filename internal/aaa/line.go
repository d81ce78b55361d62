package aaa

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"layeh.com/radius"

	"weft/internal/task"
)

// line is a socket to a server with up to 256 questions on their way, as many as
// there are identifiers (RFC 2865 section 3). A socket for each question would
// cost more than the question.
type line struct {
	conn    *net.UDPConn
	mu      sync.Mutex
	free    []byte // identifiers, the one that has rested longest first
	waiting [256]*query
	guard   task.Guard
}

// query waits for its answer.
type query struct {
	wire, secret []byte
	answer       chan *radius.Packet
	failed       chan error
}

// lines are the sockets to all servers.
type lines struct {
	mu sync.Mutex
	to map[netip.AddrPort][]*line
}

// take finds a line with a free identifier.
func (x *lines) take(ctx context.Context, to netip.AddrPort) (*line, byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.to[to] {
		if id, ok := l.take(); ok {
			return l, id, nil
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", to.String())
	if err != nil {
		return nil, 0, fmt.Errorf("find the route to RADIUS server %s: %w", to, err)
	}
	l := &line{conn: conn.(*net.UDPConn)}
	_ = l.conn.SetReadBuffer(1 << 20) // as much as the system lets
	for id := range 256 {
		l.free = append(l.free, byte(id))
	}
	if x.to == nil {
		x.to = map[netip.AddrPort][]*line{}
	}
	x.to[to] = append(x.to[to], l)
	task.Again("answers of RADIUS server "+to.String(), l.read)
	id, _ := l.take()
	return l, id, nil
}

// close ends all reading.
func (x *lines) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, list := range x.to {
		for _, l := range list {
			_ = l.conn.Close()
		}
	}
	x.to = nil
}

func (l *line) take() (byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return 0, false
	}
	id := l.free[0]
	l.free = l.free[1:]
	return id, true
}

func (l *line) release(id byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[id] = nil
	l.free = append(l.free, id)
}

// read hands answers to those who asked.
func (l *line) read() {
	b := make([]byte, radius.MaxPacketLength)
	for {
		n, err := l.conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // port unreachable
			l.fail(err)
			continue
		}
		if n < 20 {
			continue
		}
		l.guard.Do("RADIUS answer", b[:n], func() { l.receive(b[:n]) })
	}
}

func (l *line) receive(b []byte) {
	l.mu.Lock()
	q := l.waiting[b[1]]
	l.mu.Unlock()
	if q == nil || !radius.IsAuthenticResponse(b, q.wire, q.secret) {
		return
	}
	p, err := radius.Parse(append([]byte{}, b...), q.secret)
	if err != nil {
		return
	}
	select {
	case q.answer <- p:
	default: // it has one already
	}
}

func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.waiting {
		if q != nil {
			select {
			case q.failed <- err:
			default:
			}
		}
	}
}

// ask sends a packet, again after each timeout, and waits for the answer.
func (l *line) ask(ctx context.Context, id byte, p *radius.Packet, timeout time.Duration, tries int) (*radius.Packet, error) {
	wire, err := p.Encode()
	if err != nil {
		return nil, fmt.Errorf("write RADIUS packet: %w", err)
	}
	q := &query{wire: wire, secret: p.Secret, answer: make(chan *radius.Packet, 1), failed: make(chan error, 1)}
	l.mu.Lock()
	l.waiting[id] = q
	l.mu.Unlock()
	again := time.NewTimer(timeout)
	defer again.Stop()
	for range tries {
		_, _ = l.conn.Write(wire) // what is lost is said again
		select {
		case answer := <-q.answer:
			return answer, nil
		case err := <-q.failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
			again.Reset(timeout)
		}
	}
	return nil, context.DeadlineExceeded
}
