// Package dhcp4io is the only door to DHCPv4 on the network: the sockets of a server and of
// a client on one device.
package dhcp4io

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"weft/internal/packetio"
	wire4 "weft/wire/ipv4"

	"weft/wire/dhcp4"
)

// Server is the sockets of a DHCPv4 server on one device: one of UDP, so that the host's
// firewall and counters see the messages, and one for packets to clients that do not answer
// ARP yet.
type Server struct {
	conn   *ipv4.PacketConn
	direct *packetio.Conn
	index  int
	device string
}

// Listen opens the sockets of a server.
func Listen(ctx context.Context, device string) (*Server, error) {
	conn, index, err := udp(ctx, device, dhcp4.ServerPort)
	if err != nil {
		return nil, err
	}
	direct, err := packetio.Open(device, packetio.None, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Server{conn, direct, index, device}, nil
}

// udp opens a socket on a device that may send to all.
func udp(ctx context.Context, device string, port int) (*ipv4.PacketConn, int, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, 0, fmt.Errorf("find device %s: %w", device, err)
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			one := func(option int) error { return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1) }
			failed = errors.Join(one(unix.SO_REUSEADDR), one(unix.SO_BROADCAST), unix.BindToDevice(int(fd), device))
		})
		return errors.Join(err, failed)
	}}
	packet, err := config.ListenPacket(ctx, "udp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, 0, fmt.Errorf("listen for DHCPv4 on %s: %w", device, err)
	}
	return ipv4.NewPacketConn(packet), i.Index, nil
}

// Receive waits for the next message, and returns where it came from.
func (s *Server) Receive() (message []byte, from netip.Addr, err error) {
	buffer := make([]byte, 4096)
	for {
		n, _, source, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return nil, netip.Addr{}, fmt.Errorf("receive DHCPv4 on %s: %w", s.device, err)
		}
		if a, ok := source.(*net.UDPAddr); ok {
			return buffer[:n:n], a.AddrPort().Addr().Unmap(), nil
		}
	}
}

// Send sends a message of the server's address. With a hardware address it goes to that,
// past ARP: its client has the address only after it.
func (s *Server) Send(message []byte, own netip.Addr, to netip.AddrPort, hardware string) error {
	var err error
	if len(hardware) == 6 {
		d := wire4.Datagram{From: netip.AddrPortFrom(own, dhcp4.ServerPort), To: to, Payload: message}
		err = s.direct.Send(d.Marshal(), packetio.IPv4, [6]byte([]byte(hardware)))
	} else {
		_, err = s.conn.WriteTo(message, &ipv4.ControlMessage{Src: own.AsSlice(), IfIndex: s.index}, net.UDPAddrFromAddrPort(to))
	}
	if err != nil {
		return fmt.Errorf("answer DHCPv4 client at %s: %w", to, err)
	}
	return nil
}

// Close ends Receive.
func (s *Server) Close() error { return errors.Join(s.conn.Close(), s.direct.Close()) }
