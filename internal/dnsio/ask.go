package dnsio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Transport is how a forwarder is asked.
type Transport string

const (
	UDP Transport = "udp"
	TCP Transport = "tcp"
	TLS Transport = "tls"
)

// Forwarder is one resolver to ask.
type Forwarder struct {
	Transport Transport
	Address   netip.AddrPort
	Name      string // TLS: whom the certificate must name
}

// Options of a pool of forwarders.
type Options struct {
	MixCase bool
	Roots   *x509.CertPool // nil: the system's
	Now     func() time.Time
	ID      func() uint16             // unpredictable: message ids
	Bit     func() bool               // unpredictable: upper or lower case
	OneTry  time.Duration             // how long one forwarder has; zero: 1.5 s
	Loop    func(netip.AddrPort) bool // tells that an address is the server's own
}

// Pool asks forwarders, the first that works first. It is safe for concurrent
// use.
type Pool struct {
	options Options

	mu         sync.Mutex
	forwarders []*peer
}

// NewPool makes a pool.
func NewPool(o Options, list []Forwarder) *Pool {
	if o.OneTry == 0 {
		o.OneTry = 1500 * time.Millisecond
	}
	p := &Pool{options: o}
	p.Set(list, o.MixCase)
	return p
}

// RandomID is an unpredictable message id (RFC 5452 section 9.2). The
// generator behind it is ChaCha8, seeded by the kernel.
func RandomID() uint16 { return uint16(rand.Uint32()) }

// RandomBit is a coin.
func RandomBit() bool { return rand.Uint32()&1 == 1 }

// Set changes the forwarders; those that stay keep their connections and what
// is known of their health.
func (p *Pool) Set(list []Forwarder, mixCase bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.MixCase = mixCase
	old := map[Forwarder]*peer{}
	for _, f := range p.forwarders {
		old[f.Forwarder] = f
	}
	var peers []*peer
	for _, f := range list {
		q := old[f]
		if q == nil {
			q = newPeer(f, p.options)
		}
		delete(old, f)
		peers = append(peers, q)
	}
	p.forwarders = peers
	for _, gone := range old {
		gone.close()
	}
}

// Close ends the connections.
func (p *Pool) Close() { p.Set(nil, false) }

// Ask asks until one forwarder has an answer that is not a failure. If all
// fail it gives a failure that one answered with, else an error.
func (p *Pool) Ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	p.mu.Lock()
	order := healthyFirst(p.forwarders, p.options.Now())
	options := p.options
	p.mu.Unlock()
	var failure *dns.Msg
	var errs []error
	for _, f := range order {
		if options.Loop != nil && options.Loop(f.Address) {
			errs = append(errs, fmt.Errorf("%s is this server itself", f.Address))
			continue
		}
		reply, err := f.ask(ctx, q, options)
		switch {
		case ctx.Err() != nil && err != nil:
			return failure, errors.Join(append(errs, err)...)
		case err != nil:
			errs = append(errs, err)
		case reply.Rcode == dns.RcodeServerFailure && !validationFailed(reply), reply.Rcode == dns.RcodeRefused, reply.Rcode == dns.RcodeNotImplemented:
			failure = reply
		default:
			return reply, nil
		}
	}
	if failure != nil {
		return failure, nil
	}
	if len(errs) == 0 {
		return nil, errors.New("no forwarder is configured")
	}
	return nil, errors.Join(errs...)
}

// validationFailed tells that the forwarder refuses to hand on what does not
// validate (RFC 8914 section 4.7 and what follows): another, which does not
// validate, must not be believed instead.
func validationFailed(m *dns.Msg) bool {
	opt := m.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if e, is := o.(*dns.EDNS0_EDE); is && e.InfoCode >= dns.ExtendedErrorCodeDNSSECIndeterminate && e.InfoCode <= dns.ExtendedErrorCodeNSECMissing {
			return true
		}
	}
	return false
}

// ForwarderState is what is known of a forwarder.
type ForwarderState struct {
	Forwarder string        `json:"forwarder"`
	Asked     uint64        `json:"asked"`
	Failed    uint64        `json:"failed"`
	Resting   bool          `json:"resting"` // failed lately, others are asked first
	Last      time.Duration `json:"last_ns"` // how long the last answer took
	Error     string        `json:"error,omitempty"`
	Unwanted  uint64        `json:"unwanted"` // replies to no question that was asked
}

// States returns how the forwarders are.
func (p *Pool) States() []ForwarderState {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []ForwarderState
	for _, f := range p.forwarders {
		list = append(list, f.state(p.options.Now()))
	}
	return list
}

// matches reports whether reply answers q: RFC 5452 section 9.1 less what the
// socket checks. caseless forgives other upper and lower case.
func matches(q, reply *dns.Msg, caseless bool) bool {
	if !reply.Response || reply.Id != q.Id || reply.Opcode != q.Opcode {
		return false
	}
	if len(reply.Question) == 0 && q.IsEdns0() != nil && rejectsEDNS(reply) {
		return true // old servers send the header alone
	}
	if len(reply.Question) != 1 {
		return false
	}
	a, b := q.Question[0], reply.Question[0]
	if a.Qtype != b.Qtype || a.Qclass != b.Qclass {
		return false
	}
	return a.Name == b.Name || caseless && strings.EqualFold(a.Name, b.Name)
}

// mixed writes a name in random case (draft-vixie-dnsext-dns0x20).
func mixed(name string, bit func() bool) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'a' && c <= 'z' && (i == 0 || b[i-1] != '\\') && bit() {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

func tlsConfig(f Forwarder, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		ServerName: f.Name, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"dot"},
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
}

func dialer(timeout time.Duration) *net.Dialer { return &net.Dialer{Timeout: timeout} }
