package access

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"weft/wire/checksum"
)

// IPv6 packets that the engine itself reads and writes: neighbour discovery
// and DHCPv6 (RFC 8200, RFC 4443, RFC 768).
const (
	protoUDP    = 17
	protoICMPv6 = 58
	header6     = 40
)

// packet6 is an IPv6 packet without extension headers.
type packet6 struct {
	from, to netip.Addr
	proto    uint8
	hops     uint8
	payload  []byte
}

var errPacket = errors.New("read IPv6 packet: it is cut short")

func parse6(b []byte) (p packet6, err error) {
	if len(b) < header6 || b[0]>>4 != 6 {
		return p, errPacket
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b)-header6 {
		return p, errPacket
	}
	return packet6{
		from: netip.AddrFrom16([16]byte(b[8:24])), to: netip.AddrFrom16([16]byte(b[24:40])),
		proto: b[6], hops: b[7], payload: b[header6 : header6+n],
	}, nil
}

// marshal writes the packet, with the checksum of its transport at offset at.
func (p packet6) marshal(at int) []byte {
	b := make([]byte, header6, header6+len(p.payload))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(p.payload)))
	b[6], b[7] = p.proto, p.hops
	from, to := p.from.As16(), p.to.As16()
	copy(b[8:], from[:])
	copy(b[24:], to[:])
	b = append(b, p.payload...)
	sum := b[header6+at:]
	sum[0], sum[1] = 0, 0
	c := p.checksum(b[header6:])
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(sum, c)
	return b
}

// checksum is that over pseudo header and payload; 0 for a right one.
func (p packet6) checksum(payload []byte) uint16 {
	from, to := p.from.As16(), p.to.As16()
	return ^checksum.Fold(checksum.Sum(payload, checksum.Sum(to[:], checksum.Sum(from[:], checksum.Pseudo(len(payload), p.proto)))))
}

// udp6 gives the payload of a datagram for a port.
func (p packet6) udp6(port uint16) (payload []byte, from uint16, ok bool) {
	b := p.payload
	if p.proto != protoUDP || len(b) < 8 || p.checksum(b) != 0 {
		return nil, 0, false
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < 8 || n > len(b) || binary.BigEndian.Uint16(b[2:]) != port {
		return nil, 0, false
	}
	return b[8:n], binary.BigEndian.Uint16(b), true
}

// datagram6 writes a UDP datagram in IPv6.
func datagram6(from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, fromPort)
	b = binary.BigEndian.AppendUint16(b, toPort)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0, 0)
	return packet6{from: from, to: to, proto: protoUDP, hops: 1, payload: append(b, payload...)}.marshal(6)
}

// addressesOf reads the addresses of an IP packet.
func addressesOf(ip []byte) (from, to netip.Addr, ok bool) {
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), true
	case len(ip) >= header6 && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), true
	}
	return from, to, false
}
