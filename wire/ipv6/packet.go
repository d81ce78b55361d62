// Package ipv6 reads and writes IPv6 packets without extension headers, and UDP and
// ICMPv6 in them: neighbour discovery and DHCPv6 need no more (RFC 8200, RFC 4443,
// RFC 768).
package ipv6

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"weft/wire/checksum"
)

// Next headers, and the length of the header.
const (
	UDP       = 17
	ICMPv6    = 58
	HeaderLen = 40
)

// Packet is an IPv6 packet without extension headers.
type Packet struct {
	From, To   netip.Addr
	NextHeader uint8
	HopLimit   uint8
	Payload    []byte
}

var errPacket = errors.New("read IPv6 packet: it is cut short")

// Parse reads a packet; what stands behind its payload is cut off.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < HeaderLen || b[0]>>4 != 6 {
		return p, errPacket
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b)-HeaderLen {
		return p, errPacket
	}
	return Packet{
		From: netip.AddrFrom16([16]byte(b[8:24])), To: netip.AddrFrom16([16]byte(b[24:40])),
		NextHeader: b[6], HopLimit: b[7], Payload: b[HeaderLen : HeaderLen+n],
	}, nil
}

// Marshal writes the packet, with the checksum of its transport at offset at.
func (p Packet) Marshal(at int) []byte {
	b := make([]byte, HeaderLen, HeaderLen+len(p.Payload))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(p.Payload)))
	b[6], b[7] = p.NextHeader, p.HopLimit
	from, to := p.From.As16(), p.To.As16()
	copy(b[8:], from[:])
	copy(b[24:], to[:])
	b = append(b, p.Payload...)
	sum := b[HeaderLen+at:]
	sum[0], sum[1] = 0, 0
	c := p.Checksum(b[HeaderLen:])
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(sum, c)
	return b
}

// Checksum is that over pseudo header and payload; 0 for a right one.
func (p Packet) Checksum(payload []byte) uint16 {
	from, to := p.From.As16(), p.To.As16()
	return ^checksum.Fold(checksum.Sum(payload, checksum.Sum(to[:], checksum.Sum(from[:], checksum.Pseudo(len(payload), p.NextHeader)))))
}

// Datagram returns the payload of a datagram for a port.
func (p Packet) Datagram(port uint16) (payload []byte, from uint16, ok bool) {
	b := p.Payload
	if p.NextHeader != UDP || len(b) < 8 || p.Checksum(b) != 0 {
		return nil, 0, false
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < 8 || n > len(b) || binary.BigEndian.Uint16(b[2:]) != port {
		return nil, 0, false
	}
	return b[8:n], binary.BigEndian.Uint16(b), true
}

// MarshalUDP writes a UDP datagram in IPv6.
func MarshalUDP(from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, fromPort)
	b = binary.BigEndian.AppendUint16(b, toPort)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0, 0)
	return Packet{From: from, To: to, NextHeader: UDP, HopLimit: 1, Payload: append(b, payload...)}.Marshal(6)
}
