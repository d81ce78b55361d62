// Package dhcp6io is the only door to DHCPv6 clients on the network (UDP, RFC 8415): the
// socket of a server on one device.
package dhcp6io

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Ports of DHCPv6 (RFC 8415 section 7.2).
const (
	dhcpClientPort = 546
	dhcpServerPort = 547
)

// sendBuffer is what may wait for neighbours that do not answer, in bytes. What may wait to
// be received is what is usual: in a flood more would make each message wait for longer.
const sendBuffer = 4 << 20

// Conn is a DHCPv6 server's socket on one device.
type Conn struct {
	conn   *ipv6.PacketConn
	raw    syscall.RawConn
	device *net.Interface
}

// Listen opens the socket for what clients send to all servers
// (ff02::1:2).
func Listen(ctx context.Context, device string) (*Conn, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.BindToDevice(int(fd), device))
			// where that may not be had the usual buffer has to do
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer)
		})
		return errors.Join(err, failed)
	}}
	packet, err := config.ListenPacket(ctx, "udp6", fmt.Sprintf("[::]:%d", dhcpServerPort))
	if err != nil {
		return nil, fmt.Errorf("listen for DHCPv6 on %s: %w", device, err)
	}
	raw, err := packet.(*net.UDPConn).SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for DHCPv6 on %s: %w", device, err), packet.Close())
	}
	c := &Conn{ipv6.NewPacketConn(packet), raw, i}
	group := &net.UDPAddr{IP: net.ParseIP("ff02::1:2")}
	if err := errors.Join(c.conn.JoinGroup(i, group), c.conn.SetControlMessage(ipv6.FlagDst, true)); err != nil {
		return nil, errors.Join(fmt.Errorf("join the group of DHCPv6 servers on %s: %w", device, err), c.conn.Close())
	}
	return c, nil
}

// Receive waits for the next message to the group; what is sent to the router
// alone is passed over (RFC 8415 section 18.4).
func (c *Conn) Receive() (message []byte, from netip.Addr, err error) {
	buffer := make([]byte, 65536)
	for {
		n, control, source, err := c.conn.ReadFrom(buffer)
		if err != nil {
			return nil, netip.Addr{}, fmt.Errorf("receive DHCPv6: %w", err)
		}
		udp, ok := source.(*net.UDPAddr)
		if !ok || control == nil || !control.Dst.IsMulticast() {
			continue
		}
		if a, ok := netip.AddrFromSlice(udp.IP); ok && a.IsLinkLocalUnicast() {
			return buffer[:n:n], a.WithZone(c.device.Name), nil
		}
	}
}

// Send answers a client at its link-local address. It never waits: answers to addresses
// at which no host is fill the socket's buffer until the kernel gives them up, and others
// are not to wait for that.
func (c *Conn) Send(message []byte, to netip.Addr) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { // not Write: that waits until there is room
		failed = unix.Sendto(int(fd), message, unix.MSG_DONTWAIT, &unix.SockaddrInet6{Port: dhcpClientPort, ZoneId: uint32(c.device.Index), Addr: to.As16()})
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("answer DHCPv6 client %s: %w", to, err)
	}
	return nil
}

// Close ends Receive.
func (c *Conn) Close() error { return c.conn.Close() }
