package datapath

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"weft/wire/checksum/checksumtest"
)

// Builders of packets for readable vectors. Lengths and checksums come out
// right, and are computed here rather than by what is tested.

// packet is an IP packet of the family that its addresses have. What is left
// out: TTL 64, TOS 0xb8, no options.
type packet struct {
	from, to string
	protocol byte
	ttl      byte
	tos      byte
	id       int    // IPv4
	flags    int    // IPv4: flags and fragment offset; df is a flag
	options  []byte // IPv4 options, or IPv6 extension headers with their links right
	payload  []byte
	padding  int // bytes behind the packet
}

const df = 0x4000

func (p packet) bytes() []byte {
	if p.ttl == 0 {
		p.ttl = 64
	}
	if p.tos == 0 {
		p.tos = 0xb8
	}
	src, dst := addr(p.from).AsSlice(), addr(p.to).AsSlice()
	body := append(append([]byte{}, p.options...), p.payload...)
	var b []byte
	if len(src) == 16 {
		b = make([]byte, 40)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(p.tos)<<20)
		binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
		b[6], b[7] = p.protocol, p.ttl
		copy(b[8:], src)
		copy(b[24:], dst)
		b = append(b, body...)
	} else {
		b = make([]byte, 20)
		b[0], b[1], b[8], b[9] = 0x40|byte(5+len(p.options)/4), p.tos, p.ttl, p.protocol
		binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
		binary.BigEndian.PutUint16(b[4:], uint16(p.id))
		binary.BigEndian.PutUint16(b[6:], uint16(p.flags))
		copy(b[12:], src)
		copy(b[16:], dst)
		b = append(b, body...)
		binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:20+len(p.options)]))
	}
	return append(b, make([]byte, p.padding)...)
}

// seal writes the checksum of a message at seg[at:], with the pseudo-header of
// its addresses (RFC 8200 section 8.1) unless it is ICMPv4.
func seal(seg []byte, at int, from, to string, protocol byte) []byte {
	seg[at], seg[at+1] = 0, 0
	var pseudo []byte
	if protocol != 1 {
		pseudo = append(addr(from).AsSlice(), addr(to).AsSlice()...)
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(seg)))
		pseudo = append(pseudo, 0, 0, 0, protocol)
	}
	check := checksumtest.Of(pseudo, seg)
	if protocol == 17 && check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(seg[at:], check)
	return seg
}

// bin turns hex, in which spaces may stand, into bytes.
func bin(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// counting gives n bytes 0, 1, 2 ...
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func udpSegment(from, to string, data []byte) []byte {
	seg := append(bin("07d0 0fa0 0000 0000"), data...)
	binary.BigEndian.PutUint16(seg[4:], uint16(len(seg)))
	return seal(seg, 6, from, to, 17)
}

func tcpSegment(from, to string, flags byte, options []byte, n int) []byte {
	seg := append(append(bin("07d0 0fa0 00000001 00000002 0000 2000 0000 0000"), options...), counting(n)...)
	seg[12], seg[13] = byte(5+len(options)/4)<<4, flags
	return seal(seg, 16, from, to, 6)
}

// message builds an ICMP message of the family that from has.
func message(from, to string, kind, code byte, rest string, body []byte) []byte {
	protocol := byte(58)
	if addr(from).Is4() {
		protocol = 1
	}
	return seal(append(append([]byte{kind, code, 0, 0}, bin(rest)...), body...), 2, from, to, protocol)
}

func udp(from, to string, n int) packet {
	return packet{from: from, to: to, protocol: 17, payload: udpSegment(from, to, counting(n))}
}

func tcp(from, to string, flags byte, options []byte, n int) packet {
	return packet{from: from, to: to, protocol: 6, payload: tcpSegment(from, to, flags, options, n)}
}

// echo builds a ping, or its answer, with n bytes of data.
func echo(from, to string, answer bool, n int) packet {
	kind, protocol := byte(128), byte(58)
	if answer {
		kind = 129
	}
	if addr(from).Is4() {
		kind, protocol = 8, 1
		if answer {
			kind = 0
		}
	}
	return packet{from: from, to: to, protocol: protocol, payload: message(from, to, kind, 0, "00070001", counting(n))}
}

// with gives a copy of b with bytes put at an offset.
func with(b []byte, at int, put ...byte) []byte {
	c := append([]byte{}, b...)
	copy(c[at:], put)
	return c
}

// healed makes an IPv4 header checksum right again.
func healed(b []byte) []byte {
	end := min(int(b[0]&15)*4, len(b))
	if end < 20 {
		end = 20
	}
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:end]))
	return b
}
