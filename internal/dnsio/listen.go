// Package dnsio is the only door to DNS on the network: it listens for
// questions and asks forwarders. What the answers are is not its business.
package dnsio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"weft/internal/task"
)

// Handler answers one message; nil sends nothing.
type Handler func(ctx context.Context, client netip.Addr, m *dns.Msg, udp bool) *dns.Msg

// Server listens on a set of addresses, UDP and TCP on each.
type Server struct {
	handle Handler
	slots  chan struct{} // one for each message that is being answered

	mu   sync.Mutex
	open map[netip.AddrPort]*listener
}

type listener struct {
	udp, tcp *dns.Server
	tasks    task.Tasks
}

const (
	atOnce     = 2000             // messages that are being answered; more are dropped
	tcpIdle    = 10 * time.Second // RFC 7766 section 6.2.3
	tcpAtOnce  = 256              // connections to one address
	tcpQueries = 1000             // questions on one connection
)

// NewServer makes a server that listens nowhere yet.
func NewServer(h Handler) *Server {
	return &Server{handle: h, slots: make(chan struct{}, atOnce), open: map[netip.AddrPort]*listener{}}
}

// Set makes the server listen on these addresses and no others; those that
// stay keep their sockets. It does what it can: the error has all that it
// could not.
func (s *Server) Set(ctx context.Context, addresses []netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[netip.AddrPort]bool{}
	var errs []error
	for _, a := range addresses {
		wanted[a] = true
		if s.open[a] != nil {
			continue
		}
		l, err := s.listen(ctx, a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.open[a] = l
	}
	for a, l := range s.open {
		if !wanted[a] {
			l.close()
			delete(s.open, a)
		}
	}
	return errors.Join(errs...)
}

// Addresses gives where it listens.
func (s *Server) Addresses() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []netip.AddrPort
	for a := range s.open {
		list = append(list, a)
	}
	return list
}

// Close stops listening and waits for the answers under way.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, l := range s.open {
		l.close()
		delete(s.open, a)
	}
}

func (s *Server) listen(ctx context.Context, at netip.AddrPort) (*listener, error) {
	config := net.ListenConfig{Control: bindEarly}
	packet, err := config.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for DNS on %s over UDP: %w", at, err)
	}
	stream, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for DNS on %s over TCP: %w", at, err), packet.Close())
	}
	idle := func() time.Duration { return tcpIdle }
	handler := func(udp bool) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) { s.serve(ctx, w, m, udp) })
	}
	l := &listener{
		udp: &dns.Server{PacketConn: packet, Handler: handler(true), UDPSize: dns.MaxMsgSize},
		tcp: &dns.Server{
			Listener: &bounded{Listener: stream, slots: make(chan struct{}, tcpAtOnce)}, Handler: handler(false),
			IdleTimeout: idle, ReadTimeout: tcpIdle, WriteTimeout: tcpIdle, MaxTCPQueries: tcpQueries,
		},
	}
	var started sync.WaitGroup
	started.Add(2)
	l.udp.NotifyStartedFunc, l.tcp.NotifyStartedFunc = started.Done, started.Done
	for _, server := range []*dns.Server{l.udp, l.tcp} {
		l.tasks.Go(func() { _ = server.ActivateAndServe() }) // ends when it is shut down
	}
	started.Wait() // a server that has not started cannot be shut down
	return l, nil
}

// bindEarly lets a socket have an address that the host is still checking for
// duplicates (RFC 4862 section 5.4), or will have soon.
func bindEarly(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == "udp6" || network == "tcp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) }); err != nil {
		return err
	}
	return failed
}

func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, m *dns.Msg, udp bool) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return // dropped: the client asks again
	}
	from, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil {
		return
	}
	reply := s.handle(ctx, from.Addr(), m, udp)
	if reply == nil {
		if !udp {
			_ = w.Close()
		}
		return
	}
	// the client may have gone; nobody is left to tell
	_ = w.WriteMsg(reply)
}

func (l *listener) close() {
	// an error says that it was not running any more
	_ = l.udp.Shutdown()
	_ = l.tcp.Shutdown()
	l.tasks.Wait()
}

// bounded is a listener with so many connections at once; a connection too
// many is closed.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.slots <- struct{}{}:
			return &held{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
		default:
			_ = c.Close()
		}
	}
}

type held struct {
	net.Conn
	free func()
}

func (h *held) Close() error {
	h.free()
	return h.Conn.Close()
}
