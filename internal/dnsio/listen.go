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

// Server listens on a set of addresses, UDP and TCP on each. What a client takes
// of it is bounded, so that others are answered whatever one client does.
type Server struct {
	handle  Handler
	allowed func(netip.Addr) bool
	asked   shares // messages that are being answered
	guard   task.Guard

	mu   sync.Mutex
	open map[netip.AddrPort]*listener
}

type listener struct {
	udp     *net.UDPConn
	tcp     net.Listener
	streams streams
	tasks   task.Tasks
}

const (
	atOnce       = 2000             // messages that are being answered; more are dropped
	atOnceHost   = 250              // of them of one address
	atOnceSubnet = 1000             // of them of one IPv6 /64
	tcpIdle      = 10 * time.Second // for one message, from the end of the one before (RFC 7766 section 6.2.3)
	tcpQueries   = 1000             // questions on one connection
	udpWrite     = time.Second      // for one answer to leave
	queryMost    = 4096             // bytes of a question; a usual one has fewer than 100
)

// NewServer makes a server that listens nowhere yet. allowed says who may hold a
// TCP connection; others' are closed at once.
func NewServer(h Handler, allowed func(netip.Addr) bool) *Server {
	return &Server{handle: h, allowed: allowed, asked: shares{most: atOnce, host: atOnceHost, subnet: atOnceSubnet}, open: map[netip.AddrPort]*listener{}}
}

// Fault describes the last message at which the handler panicked; nil if there
// was none for long.
func (s *Server) Fault() error { return s.guard.Fault() }

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
	l := &listener{udp: packet.(*net.UDPConn), tcp: stream}
	l.tasks.Again("DNS over UDP on "+at.String(), func() { s.serveUDP(ctx, l) })
	l.tasks.Again("DNS over TCP on "+at.String(), func() { s.serveTCP(ctx, l) })
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

func (l *listener) close() {
	// an error says that it was closed already
	_ = l.udp.Close()
	_ = l.tcp.Close()
	l.streams.close()
	l.tasks.Wait()
}
