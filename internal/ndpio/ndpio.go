// Package ndpio is the only door to router discovery on the network (ICMPv6, RFC 4861): it
// sends and receives the messages; the features decide what they say.
package ndpio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
)

// Conn is a socket for router discovery on one device.
type Conn struct {
	conn *ndp.Conn
}

// Received is a router solicitation or advertisement that arrived.
type Received struct {
	Message  ndp.Message
	From     netip.Addr
	HopLimit int
}

// Listen opens the socket. The device needs a link-local address
// that is no longer tentative.
func Listen(device string) (*Conn, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	conn, _, err := ndp.Listen(i, ndp.LinkLocal)
	if err != nil {
		return nil, fmt.Errorf("listen for neighbour discovery on %s: %w", device, err)
	}
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
	err = errors.Join(
		conn.SetICMPFilter(&filter),
		conn.SetControlMessage(ipv6.FlagHopLimit, true),
		conn.JoinGroup(netip.MustParseAddr("ff02::2")), // all routers
		conn.JoinGroup(netip.IPv6LinkLocalAllNodes()),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare neighbour discovery on %s: %w", device, err), conn.Close())
	}
	return &Conn{conn}, nil
}

// Receive waits for the next message; malformed messages are ignored.
func (n *Conn) Receive() (Received, error) {
	m, control, from, err := n.conn.ReadFrom()
	if err != nil {
		return Received{}, fmt.Errorf("receive neighbour discovery: %w", err)
	}
	h := Received{Message: m, From: from}
	if control != nil {
		h.HopLimit = control.HopLimit
	}
	return h, nil
}

// Send sends a message from the device's link-local address.
func (n *Conn) Send(m ndp.Message, to netip.Addr) error {
	if err := n.conn.WriteTo(m, nil, to); err != nil {
		return fmt.Errorf("send router advertisement to %s: %w", to, err)
	}
	return nil
}

// Close ends Receive.
func (n *Conn) Close() error { return n.conn.Close() }
