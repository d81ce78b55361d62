// Package ipv4 reads and writes UDP datagrams in IPv4 packets without options: what
// DHCPv4 needs before a host has an address (RFC 791, RFC 768).
package ipv4

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"weft/wire/checksum"
)

const (
	headerLen = 20
	udpLen    = 8
	udp       = 17
	ttl       = 64
)

// Datagram is a UDP datagram in a packet that is no fragment.
type Datagram struct {
	From, To netip.AddrPort
	Payload  []byte
}

var (
	errPacket   = errors.New("read UDP in IPv4: it is cut short, a fragment, or another protocol")
	errChecksum = errors.New("read UDP in IPv4: a checksum is wrong")
)

// Parse reads a packet; what stands behind it (padding of Ethernet) is cut off. Where the
// sender has left the checksum of UDP to the device, it is partial, and not verified.
func Parse(b []byte, partial bool) (d Datagram, err error) {
	if len(b) < headerLen || b[0]>>4 != 4 || b[9] != udp {
		return d, errPacket
	}
	n, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if n < headerLen || total < n+udpLen || total > len(b) || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return d, errPacket
	}
	if checksum.Of(b[:n]) != 0 {
		return d, errChecksum
	}
	u := b[n:total]
	long := int(binary.BigEndian.Uint16(u[4:]))
	if long < udpLen || long > len(u) {
		return d, errPacket
	}
	u = u[:long]
	if !partial && binary.BigEndian.Uint16(u[6:]) != 0 && checksum.Fold(checksum.Sum(u, checksum.Sum(b[12:20], checksum.Pseudo(long, udp)))) != 0xffff {
		return d, errChecksum
	}
	return Datagram{
		From: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(u)),
		To:   netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(u[2:])), Payload: u[udpLen:],
	}, nil
}

// Marshal writes the packet, with both checksums. An address that is none is 0.0.0.0.
func (d Datagram) Marshal() []byte {
	b := make([]byte, headerLen+udpLen, headerLen+udpLen+len(d.Payload))
	b[0], b[1], b[8], b[9] = 0x45, 0x10, ttl, udp // TOS: low delay, as DHCP clients set it
	binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
	put := func(at int, a netip.Addr) {
		if a.Is4() {
			four := a.As4()
			copy(b[at:], four[:])
		}
	}
	put(12, d.From.Addr())
	put(16, d.To.Addr())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:headerLen]))
	u := b[headerLen:]
	binary.BigEndian.PutUint16(u, d.From.Port())
	binary.BigEndian.PutUint16(u[2:], d.To.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(udpLen+len(d.Payload)))
	b = append(b, d.Payload...)
	u = b[headerLen:]
	sum := ^checksum.Fold(checksum.Sum(u, checksum.Sum(b[12:20], checksum.Pseudo(len(u), udp))))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(u[6:], sum)
	return b
}
