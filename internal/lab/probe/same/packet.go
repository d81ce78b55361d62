package same

import (
	"encoding/binary"
	"net/netip"

	"weft/wire/checksum"
)

// Builders of packets with right lengths and checksums.

func bin(words ...uint16) []byte {
	var b []byte
	for _, w := range words {
		b = binary.BigEndian.AppendUint16(b, w)
	}
	return b
}

// bytesOf returns n bytes 0, 1, 2 ...
func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// v6 builds an IPv6 packet, hop limit 64, no traffic class.
func v6(from, to netip.Addr, next byte, body []byte) []byte {
	b := append(make([]byte, 40), body...)
	b[0], b[6], b[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	copy(b[8:], from.AsSlice())
	copy(b[24:], to.AsSlice())
	return b
}

// v4 builds an IPv4 packet, TTL 64; word holds flags and fragment offset.
func v4(from, to netip.Addr, protocol byte, word uint16, options, body []byte) []byte {
	b := append(append(make([]byte, 20), options...), body...)
	b[0], b[8], b[9] = 0x45+byte(len(options)/4), 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], 0x1234)
	binary.BigEndian.PutUint16(b[6:], word)
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	seal4(b)
	return b
}

// seal4 writes the checksum of an IPv4 header.
func seal4(b []byte) {
	end := min(int(b[0]&15)*4, len(b))
	copy(b[10:], bin(0))
	copy(b[10:], bin(checksum.Of(b[:end])))
}

// seal writes the checksum of a segment at seg[at:], with the pseudo header of
// its family unless it is ICMPv4.
func seal(seg []byte, at int, from, to netip.Addr, protocol byte) []byte {
	copy(seg[at:], bin(0))
	var header []byte
	if protocol != icmp4 {
		header = append(from.AsSlice(), to.AsSlice()...)
		header = binary.BigEndian.AppendUint32(header, uint32(len(seg)))
		header = append(header, 0, 0, 0, protocol)
	}
	check := checksum.Of(append(header, seg...))
	if check == 0 && protocol == udp {
		check = 0xffff
	}
	copy(seg[at:], bin(check))
	return seg
}

const (
	icmp4 = 1
	tcp   = 6
	udp   = 17
	icmp6 = 58
)

func udpSegment(from, to netip.Addr, n int) []byte {
	seg := append(bin(2000, 4000, uint16(8+n), 0), bytesOf(n)...)
	return seal(seg, 6, from, to, udp)
}

func tcpSegment(from, to netip.Addr, flags byte, options []byte, n int) []byte {
	seg := append(append(bin(2000, 4000, 0, 1, 0, 2, 0x5000, 0x2000, 0, 0), options...), bytesOf(n)...)
	seg[12], seg[13] = byte(5+len(options)/4)<<4, flags
	return seal(seg, 16, from, to, tcp)
}

func message(from, to netip.Addr, kind, code byte, rest uint32, body []byte) []byte {
	msg := append(binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, rest), body...)
	protocol := byte(icmp6)
	if from.Is4() {
		protocol = icmp4
	}
	return seal(msg, 2, from, to, protocol)
}
