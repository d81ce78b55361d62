package slowpath

import (
	"fmt"
	"net"

	"golang.org/x/net/ipv4"
)

// openRaw opens a socket that sends whole IPv4 packets.
func openRaw() (*ipv4.RawConn, error) {
	c, err := net.ListenPacket("ip4:255", "0.0.0.0") // 255: receives nothing
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	raw, err := ipv4.NewRawConn(c)
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	return raw, nil
}

func (d *Device) send(packet []byte) error {
	h, err := ipv4.ParseHeader(packet)
	if err != nil {
		return fmt.Errorf("own packet: %w", err)
	}
	return d.raw.WriteTo(h, packet[h.Len:], nil)
}
