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
	"net"
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
}

// Client asks servers in their order; one that did not answer comes last for a
// while.
type Client struct {
	log     *slog.Logger
	servers []Server
	nas     string
	mu      sync.Mutex
	silent  map[netip.AddrPort]time.Time // until when a server comes last
	waiting chan struct{}                // as many requests at a time as it has room for
}

// Settings of a server that the file leaves open.
const (
	defaultTimeout = 2 * time.Second
	defaultTries   = 3
	silentFor      = 30 * time.Second
	atATime        = 256
)

// NewClient makes a client; nas is what servers know this router by.
func NewClient(log *slog.Logger, nas string, servers []Server) *Client {
	c := &Client{log: log, nas: nas, silent: map[netip.AddrPort]time.Time{}, waiting: make(chan struct{}, atATime)}
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

// ordered gives the servers, those that are silent last.
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

// exchange sends a packet to one server after another. build makes it anew for
// each: secrets differ.
func (c *Client) exchange(ctx context.Context, at func(Server) netip.AddrPort, build func(secret []byte) (*radius.Packet, error)) (answer, asked *radius.Packet, err error) {
	select {
	case c.waiting <- struct{}{}:
		defer func() { <-c.waiting }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for _, s := range c.ordered(at) {
		packet, err := build([]byte(s.Secret))
		if err != nil {
			return nil, nil, err
		}
		inner, cancel := context.WithTimeout(ctx, time.Duration(s.Tries)*s.Timeout)
		client := radius.Client{Net: "udp", Dialer: net.Dialer{}, Retry: s.Timeout}
		answer, err := client.Exchange(inner, packet, at(s).String())
		cancel()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err == nil && packet.Code == radius.CodeAccessRequest && !signed(answer, packet) {
			err = errors.New("its answer has no right Message-Authenticator")
		}
		c.note(at(s), err)
		if err == nil {
			return answer, packet, nil
		}
	}
	return nil, nil, ErrSilent
}

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

// signed tells whether an answer has the right Message-Authenticator; one
// without any is not believed.
func signed(answer, asked *radius.Packet) bool {
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
