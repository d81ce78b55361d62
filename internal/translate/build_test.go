package translate_test

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
)

// Builders of packets for readable test vectors. Checksums are right.

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// bin joins hex strings, in which spaces may stand, into bytes.
func bin(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// ip6 builds an IPv6 packet, hop limit 64, traffic class 0xb8.
func ip6(src, dst string, next byte, payload ...[]byte) []byte {
	pkt := make([]byte, 40)
	for _, p := range payload {
		pkt = append(pkt, p...)
	}
	pkt[0], pkt[1], pkt[6], pkt[7] = 0x6b, 0x80, next, 64
	binary.BigEndian.PutUint16(pkt[4:], uint16(len(pkt)-40))
	copy(pkt[8:], addr(src).AsSlice())
	copy(pkt[24:], addr(dst).AsSlice())
	return pkt
}

// ip4 builds an IPv4 packet, TTL 64, TOS 0xb8, identification 0x1234, the
// flags and offset word as given.
func ip4(src, dst string, protocol byte, word int, options, payload []byte) []byte {
	pkt := append(append(make([]byte, 20), options...), payload...)
	pkt[0], pkt[1], pkt[8], pkt[9] = 0x40|byte(5+len(options)/4), 0xb8, 64, protocol
	binary.BigEndian.PutUint16(pkt[2:], uint16(len(pkt)))
	binary.BigEndian.PutUint16(pkt[4:], 0x1234)
	binary.BigEndian.PutUint16(pkt[6:], uint16(word))
	copy(pkt[12:], addr(src).AsSlice())
	copy(pkt[16:], addr(dst).AsSlice())
	binary.BigEndian.PutUint16(pkt[10:], uint16(^onesSum(pkt[:20+len(options)])))
	return pkt
}

// sealed writes the checksum of a segment at seg[at:].
func sealed(seg []byte, at int, src, dst string, protocol byte) []byte {
	seg[at], seg[at+1] = 0, 0
	header := []byte{}
	if protocol != 1 {
		header = append(addr(src).AsSlice(), addr(dst).AsSlice()...)
		header = binary.BigEndian.AppendUint32(header, uint32(len(seg)))
		header = append(header, 0, protocol)
	}
	binary.BigEndian.PutUint16(seg[at:], uint16(^onesSum(header, seg)))
	return seg
}

// counted returns n bytes 0, 1, 2 ...
func counted(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func udpSegment(src, dst string, n int) []byte {
	seg := append(bin("07d0 0fa0 0000 0000"), counted(n)...)
	binary.BigEndian.PutUint16(seg[4:], uint16(len(seg)))
	return sealed(seg, 6, src, dst, 17)
}

func tcpSegment(src, dst string, flags byte, options []byte, n int) []byte {
	seg := append(append(bin("07d0 0fa0 00000001 00000002 5010 2000 0000 0000"), options...), counted(n)...)
	seg[12], seg[13] = byte(5+len(options)/4)<<4, flags
	return sealed(seg, 16, src, dst, 6)
}

func icmpMessage(src, dst string, kind, code byte, rest string, body []byte) []byte {
	msg := append(append([]byte{kind, code, 0, 0}, bin(rest)...), body...)
	protocol := byte(58)
	if addr(src).Is4() {
		protocol = 1
	}
	return sealed(msg, 2, src, dst, protocol)
}

func udp6(src, dst string, n int) []byte { return ip6(src, dst, 17, udpSegment(src, dst, n)) }

func udp4(src, dst string, word, n int) []byte {
	return ip4(src, dst, 17, word, nil, udpSegment(src, dst, n))
}
