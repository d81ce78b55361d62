package dnsio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// peer is a forwarder with its health and its idle connections.
type peer struct {
	Forwarder
	tls *tls.Config // nil unless it is asked over TLS

	mu     sync.Mutex
	closed bool
	idle   []*dns.Conn
	health health
	asked  uint64
	failed uint64
	last   time.Duration
	err    error // why it failed last; nil once it answers
	edns   edns

	unwanted atomic.Uint64 // replies to no question
}

const (
	idleMax  = 4                // connections kept to one forwarder
	idleTime = 10 * time.Second // a question on a connection that old may find it closed
)

func newPeer(f Forwarder, o Options) *peer {
	p := &peer{Forwarder: f}
	if f.Transport == TLS {
		p.tls = tlsConfig(f, o.Roots)
	}
	return p
}

// health says whether a forwarder is worth asking first. After each failure it
// rests twice as long, from one second to a minute.
type health struct {
	failures int
	until    time.Time
}

const (
	restFirst = time.Second
	restMost  = time.Minute
)

func (h *health) failed(now time.Time) {
	h.failures++
	h.until = now.Add(min(restFirst<<min(h.failures-1, 6), restMost))
}

func (h *health) resting(now time.Time) bool { return now.Before(h.until) }

// healthyFirst keeps the order of the file, but puts those that rest behind
// the others: they are better than nothing.
func healthyFirst(list []*peer, now time.Time) []*peer {
	var good, rest []*peer
	for _, p := range list {
		p.mu.Lock()
		resting := p.health.resting(now)
		p.mu.Unlock()
		if resting {
			rest = append(rest, p)
		} else {
			good = append(good, p)
		}
	}
	return slices.Concat(good, rest)
}

func (p *peer) state(now time.Time) ForwarderState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := ForwarderState{Forwarder: p.String(), Asked: p.asked, Failed: p.failed, Resting: p.health.resting(now), Last: p.last, Unwanted: p.unwanted.Load()}
	if p.err != nil {
		s.Error = p.err.Error()
	}
	return s
}

// String returns the forwarder as weft.toml would have it.
func (f Forwarder) String() string {
	s, usual := f.Address.String(), uint16(53)
	if f.Transport == TLS {
		usual = 853
	}
	if f.Address.Port() == usual {
		s = f.Address.Addr().String()
	}
	if f.Transport != UDP {
		s = string(f.Transport) + "://" + s
	}
	if f.Name != "" {
		s += "#" + f.Name
	}
	return s
}

// ask puts the question to this forwarder, and keeps account of it.
func (p *peer) ask(ctx context.Context, q *dns.Msg, o Options) (*dns.Msg, error) {
	inner, cancel := context.WithTimeout(ctx, o.OneTry)
	defer cancel()
	begin := o.Now()
	reply, err := p.exchange(inner, q, o)
	if err != nil {
		err = fmt.Errorf("ask %s for %s: %w", p, q.Question[0].Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := o.Now()
	p.asked++
	switch {
	case err == nil:
		p.health, p.err, p.last = health{}, nil, now.Sub(begin)
	case errors.Is(ctx.Err(), context.Canceled): // the caller has gone: not the server's fault
	default:
		p.failed++
		p.err = err
		p.health.failed(now)
	}
	return reply, err
}

func (p *peer) exchange(ctx context.Context, q *dns.Msg, o Options) (*dns.Msg, error) {
	m := p.query(q, o)
	second := plain(m, o)
	if second == nil {
		return p.try(ctx, m, nil, o)
	}
	if p.withoutEDNS(o.Now()) {
		return p.try(ctx, second, nil, o)
	}
	again := second
	if m.IsEdns0().Do() {
		again = nil // a packet lost must not cost a validator the signatures
	}
	reply, err := p.try(ctx, m, again, o)
	if err != nil {
		return nil, err
	}
	if !rejectsEDNS(reply) {
		p.learnEDNS(reply.Id == m.Id, o.Now())
		return reply, nil
	}
	reply, err = p.try(ctx, second, nil, o)
	if err == nil && !rejectsEDNS(reply) {
		p.rejectedEDNS(o.Now())
	}
	return reply, err
}

// query makes the message for one forwarder out of a question.
func (p *peer) query(q *dns.Msg, o Options) *dns.Msg {
	m := q.Copy()
	m.Id = o.ID()
	if o.MixCase {
		m.Question[0].Name = mixed(m.Question[0].Name, o.Bit)
	}
	return m
}

// try sends m, over UDP first if the forwarder is one for UDP. Without a reply
// in half of the time it sends second, if there is one.
func (p *peer) try(ctx context.Context, m, second *dns.Msg, o Options) (*dns.Msg, error) {
	if p.Transport == UDP {
		reply, err := p.overUDP(ctx, m, second, o.OneTry/2)
		if err == nil && !reply.Truncated && (matches(m, reply, false) || second != nil && matches(second, reply, false)) {
			return reply, nil
		}
		if err != nil && !errors.Is(err, errUnwanted) {
			return nil, err
		}
		// too many wrong replies, a truncated one, or one in another case: TCP is to be trusted
	}
	return p.overStream(ctx, m)
}

// overUDP sends m from a port of its own (RFC 5452 section 9.2), after a time
// second as well if there is one, and ignores all that is no reply to either.
// Case may differ.
func (p *peer) overUDP(ctx context.Context, m, second *dns.Msg, after time.Duration) (*dns.Msg, error) {
	raw, err := dialer(0).DialContext(ctx, "udp", p.Address.String())
	if err != nil {
		return nil, err
	}
	conn := &dns.Conn{Conn: raw, UDPSize: dns.MaxMsgSize}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.WriteMsg(m); err != nil {
		return nil, err
	}
	if second != nil {
		again := time.AfterFunc(after, func() { _ = conn.WriteMsg(second) })
		defer again.Stop()
	}
	for wrong := 0; ; wrong++ {
		if wrong == unwantedMost {
			return nil, errUnwanted
		}
		reply, err := conn.ReadMsg()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil && isNetwork(err) {
			return nil, err
		}
		if err == nil && matches(m, reply, true) {
			return reply, nil
		}
		if err == nil && second != nil && matches(second, reply, true) {
			if reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError {
				return reply, nil
			}
			continue // without EDNS a failure does not say that validation was its cause
		}
		p.unwanted.Add(1)
	}
}

// unwantedMost is the number of replies that do not match a query over UDP. After
// that, a third party may be guessing its identifier, and the query goes on over TCP.
const unwantedMost = 20

var errUnwanted = errors.New("too many replies that do not match the query")

// isNetwork tells an error of the socket from one of what it brought.
func isNetwork(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF)
}

// overStream asks over TCP or TLS, on a connection that is there already if
// there is one. The forwarder may have closed that just now: then once more on
// a new one.
func (p *peer) overStream(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	if conn := p.take(); conn != nil {
		reply, err := p.onConn(ctx, conn, m)
		if err == nil || !hungUp(err) {
			return reply, err
		}
	}
	conn, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return p.onConn(ctx, conn, m)
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func (p *peer) dial(ctx context.Context) (*dns.Conn, error) {
	raw, err := dialer(0).DialContext(ctx, "tcp", p.Address.String())
	if err != nil {
		return nil, err
	}
	if p.tls != nil {
		secure := tls.Client(raw, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS: %w", err), raw.Close())
		}
		raw = secure
	}
	return &dns.Conn{Conn: raw}, nil
}

// onConn sends a query on an idle connection, and keeps the connection for the next query.
func (p *peer) onConn(ctx context.Context, conn *dns.Conn, m *dns.Msg) (*dns.Msg, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	reply, err := roundTrip(conn, m)
	switch {
	case !stop():
		// the deadline is set, or is about to be
		_ = conn.Close()
		if err != nil {
			err = context.Cause(ctx)
		}
	case err != nil:
		_ = conn.Close()
	default:
		p.keep(conn)
	}
	return reply, err
}

func roundTrip(conn *dns.Conn, m *dns.Msg) (*dns.Msg, error) {
	if err := conn.WriteMsg(m); err != nil {
		return nil, err
	}
	reply, err := conn.ReadMsg()
	if err != nil {
		return nil, err
	}
	if !matches(m, reply, true) {
		return nil, errors.New("the answer does not match the question")
	}
	return reply, nil
}

// take returns an idle connection, nil if there is none.
func (p *peer) take() *dns.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	conn := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return conn
}

func (p *peer) keep(conn *dns.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= idleMax {
		_ = conn.Close()
		return
	}
	p.idle = append(p.idle, conn)
	time.AfterFunc(idleTime, func() { p.expire(conn) })
}

// expire closes a connection that is still idle when its timer ends. One that was used
// and came back has a timer of its own too; it closes a little early.
func (p *peer) expire(conn *dns.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, conn); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		_ = conn.Close()
	}
}

func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conn := range p.idle {
		_ = conn.Close()
	}
	p.idle = nil
}
