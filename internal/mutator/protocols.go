package mutator

import "encoding/binary"

// DHCPv6 divides messages of DHCPv6: its options, and those in identity associations.
func DHCPv6() Format {
	return TLV{Fixed: 4, Header: 4, LengthAt: 2, Length: 2, Inside: func(header []byte) int {
		switch binary.BigEndian.Uint16(header) {
		case 3, 25: // IA_NA, IA_PD
			return 12
		case 5: // IA Address
			return 24
		case 26: // IA Prefix
			return 25
		case 9: // Relay Message
			return 34
		}
		return -1
	}}
}

// DHCPv4 divides messages of DHCPv4: its options, and those of a relay agent.
func DHCPv4() Format {
	return TLV{Fixed: 240, Header: 2, LengthAt: 1, Length: 1, Inside: func(header []byte) int {
		if header[0] == 82 {
			return 0
		}
		return -1
	}}
}

// L2TP divides control messages: their attribute value pairs.
func L2TP() Format {
	return TLV{Fixed: 12, Header: 6, Length: 2, Mask: 0x3ff, Whole: true}
}

// SealL2TP restores the length of a control message.
func SealL2TP(b []byte) []byte {
	if len(b) >= 4 && len(b) <= 0xffff && b[0]&0x40 != 0 {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	}
	return b
}

// PPP divides the packets of PPP's control protocols in frames with address, control
// and a protocol of two bytes: their options.
func PPP() Format { return TLV{Fixed: 8, Header: 2, LengthAt: 1, Length: 1, Whole: true} }

// SealPPP restores the length of such a packet.
func SealPPP(b []byte) []byte {
	if len(b) >= 8 && len(b) <= 0xffff && (b[2]|0x40 == 0xc0 || b[2] == 0x80 || b[2] == 0xc2) {
		binary.BigEndian.PutUint16(b[6:], uint16(len(b)-4))
	}
	return b
}

// Tunnelled divides datagrams of L2TP without a length in data messages: control
// messages, PPP's control protocols, and DHCPv6 and router discovery within PPP.
func Tunnelled() Format {
	const data, frame = 6, 4
	return By(func(b []byte) Format {
		ip := data + frame
		switch {
		case len(b) > 0 && b[0]&0x80 != 0:
			return L2TP()
		case len(b) < ip || b[data+2] != 0 || b[data+3] != 0x57:
			return TLV{Fixed: data + 8, Header: 2, LengthAt: 1, Length: 1, Whole: true}
		case len(b) > ip+48 && b[ip+6] == 17:
			f := DHCPv6().(TLV)
			f.Fixed += ip + 48
			return f
		case len(b) > ip+40 && b[ip+6] == 58:
			f := RouterDiscovery(b[ip+40] == 134).(TLV)
			f.Fixed += ip + 40
			return f
		}
		return nil
	})
}

// SealTunnelled restores lengths and checksums of such a datagram.
func SealTunnelled(b []byte) []byte {
	const data, frame = 6, 4
	switch {
	case len(b) > 0 && b[0]&0x80 != 0:
		return SealL2TP(b)
	case len(b) < data+frame:
	case b[data+2] == 0:
		SealIP(b[data+frame:])
	default:
		SealPPP(b[data:])
	}
	return b
}

// RADIUS divides packets of RADIUS: their attributes.
func RADIUS() Format { return TLV{Fixed: 20, Header: 2, LengthAt: 1, Length: 1, Whole: true} }

// SealRADIUS restores the length of a packet.
func SealRADIUS(b []byte) []byte {
	if len(b) >= 20 && len(b) <= 0xffff {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	}
	return b
}

// RouterDiscovery divides router solicitations and advertisements: their options.
func RouterDiscovery(advertisement bool) Format {
	fixed := 8
	if advertisement {
		fixed = 16
	}
	return TLV{Fixed: fixed, Header: 2, LengthAt: 1, Length: 1, Whole: true, Unit: 8}
}

// IPv6 divides packets: their extension headers, and what is behind these.
type IPv6 struct{}

const (
	hopByHop    = 0
	routing     = 43
	fragment    = 44
	destination = 60
)

// Split implements Format. The body of the message is its header without Next Header.
func (IPv6) Split(b []byte) Node {
	n := min(40, len(b))
	node := Node{Body: b[:n:n]}
	if n < 40 || b[0]>>4 != 6 {
		node.Body = b
		return node
	}
	next, at := b[6], n
	for len(b) >= at+8 && (next == hopByHop || next == routing || next == fragment || next == destination) {
		size := 8
		if next != fragment {
			size += 8 * int(b[at+1])
		}
		if at+size > len(b) {
			break
		}
		node.Items = append(node.Items, Node{Head: []byte{next}, Body: b[at : at+size : at+size]})
		next, at = b[at], at+size
	}
	node.Items = append(node.Items, Node{Head: []byte{next}, Body: b[at:len(b):len(b)]})
	return node
}

// Join implements Format: each header names the next.
func (IPv6) Join(n Node) []byte {
	b := append([]byte(nil), n.Body...)
	at := 6
	for _, i := range n.Items {
		if len(b) <= at || len(b) > 1<<17 || len(i.Head) == 0 {
			break
		}
		b[at] = i.Head[0]
		at = len(b)
		b = appendBodies(b, i)
	}
	return b
}

// SealIP restores lengths and checksums of an IPv4 or IPv6 packet with UDP, TCP or ICMP
// directly behind its header.
func SealIP(b []byte) []byte {
	switch {
	case len(b) >= 20 && len(b) <= 0xffff && b[0]>>4 == 4:
		header := int(b[0]&15) * 4
		if header < 20 || header > len(b) {
			return b
		}
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^fold(sum(b[:header])))
		if b[6]&0x3f|b[7] == 0 {
			sealTransport(b[header:], b[9], sum(b[12:20]))
		}
	case len(b) >= 40 && len(b) <= 0xffff && b[0]>>4 == 6:
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		sealTransport(b[40:], b[6], sum(b[8:40]))
	}
	return b
}

func sealTransport(p []byte, protocol byte, addresses uint32) {
	at := 0
	switch protocol {
	case 6:
		at = 16
	case 17:
		at = 6
		if len(p) >= 8 {
			binary.BigEndian.PutUint16(p[4:], uint16(len(p)))
		}
	case 1:
		at, addresses = 2, 0
	case 58:
		at = 2
	default:
		return
	}
	if len(p) < at+2 {
		return
	}
	if protocol != 1 {
		addresses += uint32(len(p)) + uint32(protocol)
	}
	p[at], p[at+1] = 0, 0
	check := ^fold(addresses + uint32(fold(sum(p))))
	if check == 0 && protocol == 17 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(p[at:], check)
}

func sum(b []byte) (s uint32) {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
		s = s&0xffff + s>>16
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
