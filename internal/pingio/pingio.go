// Package pingio is the only door to ICMP echo on the network (RFC 792, RFC 4443): one
// request through one device, and its answer.
package pingio

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Protocol numbers, as golang.org/x/net/icmp wants them.
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

// Echo sends one echo request to a host through a device, and returns the time until
// its reply. It waits until ctx ends at most; the error says why there is no reply. The
// reply must come from the host, with the identifier, number and 16 random bytes of the
// request: a host that is not on the path cannot forge it.
func Echo(ctx context.Context, device string, host netip.Addr) (time.Duration, error) {
	network, protocol := "ip4:icmp", protocolICMP
	var request, reply icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if host.Is6() {
		network, protocol = "ip6:ipv6-icmp", protocolICMPv6
		request, reply = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
		if host.IsLinkLocalUnicast() {
			host = host.WithZone(device)
		}
	}
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), device) })
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(ctx, network, host.String())
	if err != nil {
		return 0, fmt.Errorf("ask %s through %s: %w", host, device, err)
	}
	defer conn.Close()
	nonce := make([]byte, 20)
	_, _ = rand.Read(nonce) // never fails
	body := &icmp.Echo{ID: int(binary.BigEndian.Uint16(nonce)), Seq: int(binary.BigEndian.Uint16(nonce[2:])), Data: nonce[4:]}
	message, err := (&icmp.Message{Type: request, Body: body}).Marshal(nil) // the kernel makes the checksum of ICMPv6
	if err != nil {
		return 0, fmt.Errorf("make an echo request: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	sent := time.Now()
	if _, err := conn.Write(message); err != nil {
		return 0, fmt.Errorf("send to %s through %s: %w", host, device, err)
	}
	ip, ok := conn.(*net.IPConn)
	if !ok {
		return 0, fmt.Errorf("a %T is no raw socket", conn)
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := ip.ReadFromIP(buffer) // without the IPv4 header
		if err != nil {
			return 0, fmt.Errorf("no reply of %s through %s: %w", host, device, err)
		}
		m, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil || m.Type != reply {
			continue
		}
		if e, ok := m.Body.(*icmp.Echo); ok && e.ID == body.ID && e.Seq == body.Seq && bytes.Equal(e.Data, body.Data) {
			return time.Since(sent), nil
		}
	}
}
