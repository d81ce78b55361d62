// Package lan is the only door to what hosts of a link say about living on it:
// router discovery (ICMPv6) and DHCPv6 (UDP). What is said is not its business.
package lan

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
)

// Neighbours is a socket for router discovery on one device.
type Neighbours struct {
	conn *ndp.Conn
}

// Heard is a router solicitation or advertisement that came in.
type Received struct {
	Message  ndp.Message
	From     netip.Addr
	HopLimit int
}

// ListenNeighbours opens the socket. The device needs a link-local address
// that is no longer tentative.
func ListenNeighbours(device string) (*Neighbours, error) {
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
	return &Neighbours{conn}, nil
}

// Receive waits for the next message; what is malformed is passed over.
func (n *Neighbours) Receive() (Received, error) {
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
func (n *Neighbours) Send(m ndp.Message, to netip.Addr) error {
	if err := n.conn.WriteTo(m, nil, to); err != nil {
		return fmt.Errorf("send router advertisement to %s: %w", to, err)
	}
	return nil
}

// Close ends Receive.
func (n *Neighbours) Close() error { return n.conn.Close() }
