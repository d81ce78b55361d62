package datapathtest

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
type Packet struct {
	From, To string
	Protocol byte
	Ttl      byte
	Tos      byte
	Id       int    // IPv4
	Flags    int    // IPv4: flags and fragment offset; df is a flag
	Options  []byte // IPv4 options, or IPv6 extension headers with their links right
	Payload  []byte
	Padding  int // bytes behind the packet
}

const Df = 0x4000

func (p Packet) Bytes() []byte {
	if p.Ttl == 0 {
		p.Ttl = 64
	}
	if p.Tos == 0 {
		p.Tos = 0xb8
	}
	src, dst := Addr(p.From).AsSlice(), Addr(p.To).AsSlice()
	body := append(append([]byte{}, p.Options...), p.Payload...)
	var b []byte
	if len(src) == 16 {
		b = make([]byte, 40)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(p.Tos)<<20)
		binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
		b[6], b[7] = p.Protocol, p.Ttl
		copy(b[8:], src)
		copy(b[24:], dst)
		b = append(b, body...)
	} else {
		b = make([]byte, 20)
		b[0], b[1], b[8], b[9] = 0x40|byte(5+len(p.Options)/4), p.Tos, p.Ttl, p.Protocol
		binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
		binary.BigEndian.PutUint16(b[4:], uint16(p.Id))
		binary.BigEndian.PutUint16(b[6:], uint16(p.Flags))
		copy(b[12:], src)
		copy(b[16:], dst)
		b = append(b, body...)
		binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:20+len(p.Options)]))
	}
	return append(b, make([]byte, p.Padding)...)
}

// seal writes the checksum of a message at seg[at:], with the pseudo-header of
// its addresses (RFC 8200 section 8.1) unless it is ICMPv4.
func Seal(seg []byte, at int, from, to string, protocol byte) []byte {
	seg[at], seg[at+1] = 0, 0
	var pseudo []byte
	if protocol != 1 {
		pseudo = append(Addr(from).AsSlice(), Addr(to).AsSlice()...)
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
func Bin(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// counting returns n bytes 0, 1, 2 ...
func Counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func UdpSegment(from, to string, data []byte) []byte {
	seg := append(Bin("07d0 0fa0 0000 0000"), data...)
	binary.BigEndian.PutUint16(seg[4:], uint16(len(seg)))
	return Seal(seg, 6, from, to, 17)
}

func TcpSegment(from, to string, flags byte, options []byte, n int) []byte {
	seg := append(append(Bin("07d0 0fa0 00000001 00000002 0000 2000 0000 0000"), options...), Counting(n)...)
	seg[12], seg[13] = byte(5+len(options)/4)<<4, flags
	return Seal(seg, 16, from, to, 6)
}

// message builds an ICMP message of the family that from has.
func Message(from, to string, kind, code byte, rest string, body []byte) []byte {
	protocol := byte(58)
	if Addr(from).Is4() {
		protocol = 1
	}
	return Seal(append(append([]byte{kind, code, 0, 0}, Bin(rest)...), body...), 2, from, to, protocol)
}

func Udp(from, to string, n int) Packet {
	return Packet{From: from, To: to, Protocol: 17, Payload: UdpSegment(from, to, Counting(n))}
}

func Tcp(from, to string, flags byte, options []byte, n int) Packet {
	return Packet{From: from, To: to, Protocol: 6, Payload: TcpSegment(from, to, flags, options, n)}
}

// echo builds a ping, or its answer, with n bytes of data.
func Echo(from, to string, answer bool, n int) Packet {
	kind, protocol := byte(128), byte(58)
	if answer {
		kind = 129
	}
	if Addr(from).Is4() {
		kind, protocol = 8, 1
		if answer {
			kind = 0
		}
	}
	return Packet{From: from, To: to, Protocol: protocol, Payload: Message(from, to, kind, 0, "00070001", Counting(n))}
}

// with returns a copy of b with bytes put at an offset.
func With(b []byte, at int, put ...byte) []byte {
	c := append([]byte{}, b...)
	copy(c[at:], put)
	return c
}

// healed makes an IPv4 header checksum right again.
func Healed(b []byte) []byte {
	end := min(int(b[0]&15)*4, len(b))
	if end < 20 {
		end = 20
	}
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:end]))
	return b
}
