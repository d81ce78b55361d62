// Package l2tpio is the only door to L2TP on the network: UDP sockets, by the
// local address that they have. What is said is not its business.
package l2tpio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// buffer is how much may wait in a socket: thousands of subscribers may come
// back in the same second.
const buffer = 16 << 20

// Socket is a UDP socket with one local address.
type Socket struct {
	conn *net.UDPConn
	raw  syscall.RawConn
	here netip.AddrPort
}

// Open opens a socket at an address; port 0 takes any.
func Open(ctx context.Context, at netip.AddrPort) (*Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = prepare(int(fd), at.Addr().Is6()) })
		return errors.Join(err, failed)
	}}
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	packet, err := config.ListenPacket(ctx, network, at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for L2TP on %s: %w", at, err)
	}
	conn := packet.(*net.UDPConn)
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for L2TP on %s: %w", at, err), conn.Close())
	}
	here := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return &Socket{conn, raw, netip.AddrPortFrom(here.Addr().Unmap(), here.Port())}, nil
}

// prepare sets the socket up: a large buffer; packets that do not fit the path
// are fragmented, as RFC 2661 section 8.1 leaves to IP; and an address that is
// not there yet may be used already.
func prepare(fd int, v6 bool) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer); err != nil {
			return fmt.Errorf("set receive buffer: %w", err)
		}
	}
	// what waits for neighbours that do not answer counts, up to unres_qlen_bytes for each
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer); err != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer); err != nil {
			return fmt.Errorf("set send buffer: %w", err)
		}
	}
	if v6 {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DONT),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1),
		)
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1),
	)
}

// Dial opens a socket from which a server is reached, and gives the server's
// address: server is a name or an address, with a port.
func Dial(ctx context.Context, server string) (*Socket, netip.AddrPort, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server)
	if err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("find the route to %s: %w", server, err)
	}
	local, remote := conn.LocalAddr().(*net.UDPAddr).AddrPort(), conn.RemoteAddr().(*net.UDPAddr).AddrPort()
	if err := conn.Close(); err != nil {
		return nil, netip.AddrPort{}, err
	}
	s, err := Open(ctx, netip.AddrPortFrom(local.Addr().Unmap(), 0))
	return s, netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), err
}

// Here is the local address.
func (s *Socket) LocalAddr() netip.AddrPort { return s.here }

// Receive waits for a datagram; it gives its length.
func (s *Socket) Receive(b []byte) (int, netip.AddrPort, error) {
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
			continue // about something sent earlier
		}
		if err != nil {
			return 0, from, fmt.Errorf("receive L2TP on %s: %w", s.here, err)
		}
		return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), nil
	}
}

// Send sends a datagram and never waits; one that the stack refuses is lost like any
// other. False: the socket had no room for it, as what was sent before waits for neighbours
// that do not answer.
func (s *Socket) Send(b []byte, to netip.AddrPort) bool {
	var failed error
	// Control, not Write: Write waits until there is room
	if err := s.raw.Control(func(fd uintptr) {
		failed = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, sockaddr(to))
		if errors.Is(failed, unix.ECONNREFUSED) || errors.Is(failed, unix.EHOSTUNREACH) { // about something sent earlier
			failed = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, sockaddr(to))
		}
	}); err != nil {
		return true
	}
	return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.ENOBUFS)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	to := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		if device, err := net.InterfaceByName(zone); err == nil {
			to.ZoneId = uint32(device.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			to.ZoneId = uint32(n)
		}
	}
	return to
}

// Close ends Receive.
func (s *Socket) Close() error { return s.conn.Close() }
