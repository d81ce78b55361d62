// Package aaa is the only door to RADIUS (RFC 2865, RFC 2866): it asks who a
// subscriber is, tells what a session carried, and takes orders to change or
// end one (RFC 5176).
package aaa

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2869"
)

// Server is one RADIUS server.
type Server struct {
	Auth, Accounting netip.AddrPort
	Secret           string
	Timeout          time.Duration // of one attempt
	Tries            int
	// Unsigned: answers without a Message-Authenticator are taken. The Response
	// Authenticator alone protects them, which can be forged (CVE-2024-3596).
	Unsigned bool
}

// Client asks servers in their order; one that did not answer comes last for a
// while.
type Client struct {
	log       *slog.Logger
	servers   []Server
	nas       string
	mu        sync.Mutex
	silent    map[netip.AddrPort]time.Time // until when a server comes last
	asking    chan struct{}                // as many questions at a time as it has room for
	reporting chan struct{}                // and accounts: a server that is slow to take them delays no login
	lines     lines
	queue     queue
	pause     time.Duration                   // between two attempts while no accounting server answers
	counts    map[netip.AddrPort]*ServerStats // by where it authenticates; mu
}

// NAS is what the servers know this router by (NAS-Identifier, RFC 2865 section 5.32).
func (c *Client) NAS() string { return c.nas }

// Stats returns how the servers answer, in their order.
func (c *Client) Stats() []ServerStats {
	c.queue.mu.Lock()
	waiting, lost := c.queue.count, c.queue.lost
	c.queue.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var list []ServerStats
	for _, s := range c.servers {
		one := ServerStats{Server: s.Auth}
		if n := c.counts[s.Auth]; n != nil {
			one = *n
		}
		one.Server, one.Waiting, one.Lost = s.Auth, waiting, lost
		for _, at := range []netip.AddrPort{s.Auth, s.Accounting} {
			one.Silent = one.Silent || now.Before(c.silent[at])
		}
		list = append(list, one)
	}
	return list
}

// count notes what became of a question or an account.
func (c *Client) count(s Server, kind radius.Code, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts[s.Auth]
	if n == nil {
		n = &ServerStats{}
		c.counts[s.Auth] = n
	}
	switch asks := kind == radius.CodeAccessRequest; {
	case err == nil && asks:
		n.Answered++
	case err == nil:
		n.Accounted++
	case errors.Is(err, errForged):
		n.Forged++
	case asks:
		n.Unanswered++
	default:
		n.AccountsUnanswered++
	}
}

var errForged = errors.New("its answer has no valid Message-Authenticator: check the secret, and that the server signs its answers; for a server that cannot, set unsigned = true in its entry of radius")

// Settings of a server that the file leaves open.
const (
	defaultTimeout = 2 * time.Second
	defaultTries   = 3
	silentFor      = 30 * time.Second
)

// AtATime is how many questions a client asks at a time, and how many accounts it tells.
const AtATime = 256

// NewClient makes a client; nas is what servers know this router by.
func NewClient(log *slog.Logger, nas string, servers []Server) *Client {
	c := &Client{log: log, nas: nas, silent: map[netip.AddrPort]time.Time{}, counts: map[netip.AddrPort]*ServerStats{}, asking: make(chan struct{}, AtATime), reporting: make(chan struct{}, AtATime), pause: accountEvery}
	c.queue.most, c.queue.events = accountsMost, make(chan struct{}, 1)
	for _, s := range servers {
		if s.Timeout <= 0 {
			s.Timeout = defaultTimeout
		}
		if s.Tries <= 0 {
			s.Tries = defaultTries
		}
		if !s.Accounting.IsValid() {
			s.Accounting = netip.AddrPortFrom(s.Auth.Addr(), s.Auth.Port()+1)
		}
		c.servers = append(c.servers, s)
	}
	return c
}

// ErrSilent says that no server answered.
var ErrSilent = errors.New("no RADIUS server answers")

// ordered returns the servers, those that are silent last.
func (c *Client) ordered(at func(Server) netip.AddrPort) []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var good, bad []Server
	for _, s := range c.servers {
		if until, ok := c.silent[at(s)]; ok && now.Before(until) {
			bad = append(bad, s)
		} else {
			good = append(good, s)
		}
	}
	return append(good, bad...)
}

// exchange sends a packet to one server after another. build makes a packet for each,
// because secrets differ.
func (c *Client) exchange(ctx context.Context, room chan struct{}, at func(Server) netip.AddrPort, build func(secret []byte) (*radius.Packet, error)) (answer, asked *radius.Packet, err error) {
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for _, s := range c.ordered(at) {
		packet, err := build([]byte(s.Secret))
		if err != nil {
			return nil, nil, err
		}
		answer, err := c.ask(ctx, s, at(s), packet)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		c.note(at(s), err)
		c.count(s, packet.Code, err)
		if err == nil {
			return answer, packet, nil
		}
	}
	return nil, nil, ErrSilent
}

// ask puts a question to one server.
func (c *Client) ask(ctx context.Context, s Server, to netip.AddrPort, p *radius.Packet) (*radius.Packet, error) {
	l, id, err := c.lines.take(ctx, to)
	if err != nil {
		return nil, err
	}
	defer l.release(id)
	p.Identifier = id
	if p.Code == radius.CodeAccessRequest {
		if err := sign(p); err != nil {
			return nil, err
		}
	}
	answer, err := l.ask(ctx, id, p, s.Timeout, s.Tries)
	if err == nil && p.Code == radius.CodeAccessRequest && !signed(answer, p, s.Unsigned) {
		return nil, errForged
	}
	return answer, err
}

// Close lets go of the sockets.
func (c *Client) Close() { c.lines.close() }

func (c *Client) note(server netip.AddrPort, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, was := c.silent[server]
	switch {
	case err != nil:
		c.silent[server] = time.Now().Add(silentFor)
		if !was {
			c.log.Warn("a RADIUS server does not answer", "server", server.String(), "error", err)
		}
	case was:
		delete(c.silent, server)
		c.log.Info("a RADIUS server answers again", "server", server.String())
	}
}

// sign puts a Message-Authenticator first (RFC 3579 section 3.2): without one
// an answer can be forged (CVE-2024-3596).
func sign(p *radius.Packet) error {
	attributes := p.Attributes
	p.Attributes = nil
	p.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, md5.Size))
	p.Attributes = append(p.Attributes, attributes...)
	sum, err := digest(p, p.Authenticator)
	if err != nil {
		return err
	}
	p.Attributes[0].Attribute = sum
	return nil
}

// digest is the Message-Authenticator of a packet whose own is zero.
func digest(p *radius.Packet, authenticator [16]byte) ([]byte, error) {
	q := *p
	q.Authenticator = authenticator
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("write RADIUS packet: %w", err)
	}
	mac := hmac.New(md5.New, p.Secret)
	mac.Write(b)
	return mac.Sum(nil), nil
}

// signed reports whether an answer has the right Message-Authenticator; one
// without any is believed only of a server of which the file says so.
func signed(answer, asked *radius.Packet, unsigned bool) bool {
	if _, has := answer.Lookup(rfc2869.MessageAuthenticator_Type); !has && unsigned {
		return true
	}
	return authentic(answer, asked.Authenticator)
}

func authentic(p *radius.Packet, authenticator [16]byte) bool {
	q := *p
	q.Attributes = nil
	var got []byte
	for _, a := range p.Attributes {
		one := *a
		if a.Type == rfc2869.MessageAuthenticator_Type {
			if got != nil || len(a.Attribute) != md5.Size {
				return false
			}
			got, one.Attribute = a.Attribute, make(radius.Attribute, md5.Size)
		}
		q.Attributes = append(q.Attributes, &one)
	}
	if got == nil {
		return false
	}
	want, err := digest(&q, authenticator)
	return err == nil && hmac.Equal(got, want)
}
