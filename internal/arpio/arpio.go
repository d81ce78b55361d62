// Package arpio is the only door to ARP on the network, as address conflict detection needs
// it (RFC 5227).
package arpio

import (
	"fmt"
	"net/netip"

	"weft/internal/packetio"
	"weft/wire/arp"
)

// Conn sends and receives ARP on one device.
type Conn struct{ packets *packetio.Conn }

// Open opens a socket.
func Open(device string) (*Conn, error) {
	packets, err := packetio.Open(device, packetio.ARP, nil)
	if err != nil {
		return nil, err
	}
	return &Conn{packets}, nil
}

// Hardware is the address of the device.
func (c *Conn) Hardware() [6]byte { return c.packets.Hardware }

// Receive waits for the next packet that is valid.
func (c *Conn) Receive() (arp.Packet, error) {
	for {
		p, err := c.packets.Receive()
		if err != nil {
			return arp.Packet{}, fmt.Errorf("receive ARP: %w", err)
		}
		if a, err := arp.Parse(p.Payload); err == nil {
			return a, nil
		}
	}
}

// Probe asks whether a host has an address.
func (c *Conn) Probe(a netip.Addr) error {
	return c.packets.Send(arp.Probe(c.packets.Hardware, a).Marshal(), packetio.ARP, packetio.Broadcast())
}

// Announce says that this host has an address.
func (c *Conn) Announce(a netip.Addr) error {
	return c.packets.Send(arp.Announcement(c.packets.Hardware, a).Marshal(), packetio.ARP, packetio.Broadcast())
}

// Close ends Receive.
func (c *Conn) Close() error { return c.packets.Close() }
