package slowpath

import (
	"errors"
	"fmt"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// rawSocket sends whole IPv4 packets.
type rawSocket struct{ fd int }

func openRaw() (rawSocket, error) {
	// IPPROTO_RAW: the header is in what is sent, and nothing is received (raw(7))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return rawSocket{-1}, fmt.Errorf("open raw socket: %w", err)
	}
	return rawSocket{fd}, nil
}

func (r rawSocket) Close() error { return unix.Close(r.fd) }

// send never waits: a packet for which the socket has no room is lost. Neighbours that do
// not answer may hold what the socket has sent before.
func (d *Device) send(packet []byte) error {
	if len(packet) < ipv4.HeaderLen || packet[0]>>4 != 4 {
		return errors.New("own packet: not an IPv4 packet")
	}
	if err := unix.Sendto(d.raw.fd, packet, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}); err != nil {
		return fmt.Errorf("send own packet: %w", err)
	}
	return nil
}
