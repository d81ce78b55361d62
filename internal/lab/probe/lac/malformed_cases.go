package lac

import "encoding/binary"

// controlWith is a control message of the tunnel, with the next number, whose
// attributes are b; its length says what is true.
func controlWith(t *Tunnel, session uint16, b []byte) []byte {
	m := make([]byte, 12, 12+len(b))
	m[0], m[1] = 0xc8, 2
	binary.BigEndian.PutUint16(m[2:], uint16(12+len(b)))
	binary.BigEndian.PutUint16(m[4:], t.Peer)
	binary.BigEndian.PutUint16(m[6:], session)
	binary.BigEndian.PutUint16(m[8:], t.ns)
	binary.BigEndian.PutUint16(m[10:], t.nr)
	return append(m, b...)
}

// rawAVP is an AVP with the given flags and length, right or not.
func rawAVP(head, kind uint16, value []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, head)
	b = append(b, 0, 0)
	return append(binary.BigEndian.AppendUint16(b, kind), value...)
}

func join(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func cases() []malformed {
	kind := func(n uint16) []byte { return avp(0, be16(n)) }
	control := func(name string, b []byte) malformed {
		return malformed{name, func(t *Tunnel, s *Session) []byte { return controlWith(t, 0, b) }}
	}
	ppp := func(name string, protocol uint16, b []byte) malformed {
		return malformed{name, func(t *Tunnel, s *Session) []byte {
			f := join([]byte{0, 2}, be16(t.Peer), be16(s.Peer), []byte{0xff, 3}, be16(protocol))
			return append(f, b...)
		}}
	}
	header := func(name string, flags uint16, b []byte) malformed {
		return malformed{name, func(t *Tunnel, s *Session) []byte {
			return join(be16(flags), be16(t.Peer), be16(s.Peer), b)
		}}
	}
	hello, icrq := kind(6), kind(10)
	big := make([]byte, 1400)
	many := join(hello)
	for range 200 {
		many = append(many, rawAVP(6, 99, nil)...)
	}
	pppHead := func(code, id byte, length uint16) []byte { return append([]byte{code, id}, be16(length)...) }
	list := []malformed{
		{"an empty datagram", func(*Tunnel, *Session) []byte { return []byte{} }},
		{"one byte", func(*Tunnel, *Session) []byte { return []byte{0xc8} }},
		{"version 3", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[1] = 3; return b }},
		{"control without a length", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[0] = 0x88; return b }},
		{"control without numbers", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[0] = 0xc0; return b }},
		{"control with an offset", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[0] |= 2; return b }},
		{"a length of zero", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[2], b[3] = 0, 0; return b }},
		{"a length beyond the datagram", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[2] = 0xff; return b }},
		{"a length within the header", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[3] = 7; return b }},
		{"Ns far ahead", func(t *Tunnel, _ *Session) []byte { b := controlWith(t, 0, hello); b[8] ^= 0x7f; return b }},
		{"Ns just behind the half of the circle", func(t *Tunnel, _ *Session) []byte {
			b := controlWith(t, 0, hello)
			binary.BigEndian.PutUint16(b[8:], t.ns+0x8000)
			return b
		}},
		{"Nr of what was never sent", func(t *Tunnel, _ *Session) []byte {
			b := controlWith(t, 0, hello)
			binary.BigEndian.PutUint16(b[10:], t.nr+0x7fff)
			return b
		}},
		{"Nr far behind", func(t *Tunnel, _ *Session) []byte {
			b := controlWith(t, 0, hello)
			binary.BigEndian.PutUint16(b[10:], t.nr+0x8001)
			return b
		}},
		{"an empty message for another session", func(t *Tunnel, s *Session) []byte { return controlWith(t, s.Peer+1, nil) }},
		control("an attribute of length 0", join(hello, rawAVP(0x8000, 7, nil))),
		control("an attribute of length 5", join(hello, rawAVP(0x8005, 7, nil))),
		control("an attribute longer than the message", join(hello, rawAVP(0x83ff, 7, []byte{1}))),
		control("an attribute cut in its header", join(hello, []byte{0x80, 8, 0, 0, 0})),
		control("reserved bits", join(hello, rawAVP(0xbc06, 7, nil))),
		control("no message type", rawAVP(0x8008, 9, []byte{0, 1})),
		control("a message type of one byte", rawAVP(0x8007, 0, []byte{6})),
		control("an unknown message type, mandatory", kind(999)),
		control("an unknown attribute, mandatory", join(hello, rawAVP(0x8008, 999, []byte{1, 2}))),
		control("an attribute of a strange vendor, mandatory", join(hello, []byte{0x80, 8, 0xff, 0xff, 0, 1, 0, 0})),
		control("a hidden message type", rawAVP(0xc008, 0, []byte{0, 6})),
		control("hidden, without a random vector", join(icrq, rawAVP(0xc00a, 14, []byte{1, 2, 3, 4}))),
		control("hidden, shorter than a length", join(icrq, avp(36, make([]byte, 16)), rawAVP(0xc007, 14, []byte{1}))),
		control("hidden, whose length lies", join(icrq, avp(36, make([]byte, 16)), rawAVP(0xc016, 14, make([]byte, 16)))),
		control("hidden, of no bytes", join(icrq, avp(36, nil), rawAVP(0xc006, 14, nil))),
		control("two hundred empty attributes", many),
		control("a call with session id 0", join(icrq, avp(14, be16(0)), avp(15, make([]byte, 4)))),
		control("a call without any id", icrq),
		control("a call whose id has three bytes", join(icrq, rawAVP(0x8009, 14, []byte{1, 2, 3}))),
		control("ICCN for no session", join(kind(12), avp(24, make([]byte, 4)), avp(19, make([]byte, 4)))),
		control("CDN with an empty result", join(kind(14), avp(14, be16(9)), rawAVP(0x8006, 1, nil))),
		control("SCCRQ inside of a tunnel", join(kind(1), avp(2, []byte{1, 0}), avp(7, []byte("x")), avp(9, be16(5)))),
		control("SCCRQ with tunnel id 0", join(kind(1), avp(2, []byte{1, 0}), avp(7, []byte("x")), avp(9, be16(0)))),
		control("OCRQ", join(kind(7), avp(14, be16(77)), avp(15, make([]byte, 4)))),
		control("a window of zero", join(kind(1), avp(2, []byte{1, 0}), avp(7, []byte("x")), avp(9, be16(77)), avp(10, be16(0)))),
		header("data that ends behind its header", 2, nil),
		header("data whose offset is beyond it", 0x0202, []byte{0xff, 0xff}),
		header("data whose offset is cut", 0x0202, []byte{0}),
		header("data with an offset of all that is left", 0x0202, []byte{0, 2, 0, 0}),
		header("data with a length of zero", 0x4002, []byte{0, 0}),
		header("numbered data that is cut", 0x0802, []byte{0, 1}),
		header("every flag at once", 0x7ff2, big),
		ppp("a protocol and nothing", 0xc021, nil),
		ppp("LCP of length 0", 0xc021, pppHead(1, 1, 0)),
		ppp("LCP of length 3", 0xc021, pppHead(1, 1, 3)),
		ppp("LCP longer than its frame", 0xc021, pppHead(1, 1, 0xffff)),
		ppp("an option of length 0", 0xc021, join(pppHead(1, 1, 6), []byte{1, 0})),
		ppp("an option of length 1", 0xc021, join(pppHead(1, 1, 6), []byte{1, 1})),
		ppp("an option beyond its packet", 0xc021, join(pppHead(1, 1, 6), []byte{1, 200})),
		ppp("options of length 0 without end", 0xc021, join(pppHead(1, 1, 1404), big)),
		ppp("an MRU of one byte", 0xc021, join(pppHead(1, 1, 7), []byte{1, 3, 5})),
		ppp("an MRU of zero", 0xc021, join(pppHead(1, 1, 8), []byte{1, 4, 0, 0})),
		ppp("authentication of no protocol", 0xc021, join(pppHead(1, 1, 6), []byte{3, 2})),
		ppp("an echo request beyond the MRU", 0xc021, join(pppHead(9, 1, 1404), big)),
		ppp("an echo request without a magic", 0xc021, pppHead(9, 1, 4)),
		ppp("a Protocol-Reject of nothing", 0xc021, pppHead(8, 1, 4)),
		ppp("a Protocol-Reject of LCP", 0xc021, join(pppHead(8, 1, 6), []byte{0xc0, 0x21})),
		ppp("a Code-Reject of Configure-Request", 0xc021, join(pppHead(7, 1, 8), pppHead(1, 1, 4))),
		ppp("an unknown code", 0xc021, pppHead(255, 1, 4)),
		ppp("PAP whose lengths lie", 0xc023, join(pppHead(1, 1, 8), []byte{200, 'a', 200, 'b'})),
		ppp("a CHAP response without a challenge", 0xc223, join(pppHead(2, 1, 21), make([]byte, 17))),
		ppp("CHAP whose value is beyond it", 0xc223, join(pppHead(2, 1, 5), []byte{255})),
		ppp("IPCP with an address of one byte", 0x8021, join(pppHead(1, 1, 7), []byte{3, 3, 1})),
		ppp("IPV6CP with an identifier of zero", 0x8057, join(pppHead(1, 1, 14), []byte{1, 10}, make([]byte, 8))),
		ppp("IPv4 of no bytes", 0x21, nil),
		ppp("IPv4 cut in its header", 0x21, []byte{0x45, 0, 0, 20, 0}),
		ppp("IPv4 whose header is longer than it", 0x21, append([]byte{0x4f, 0, 0, 20}, make([]byte, 16)...)),
		ppp("IPv4 that says it is longer", 0x21, append([]byte{0x45, 0, 0xff, 0xff}, make([]byte, 16)...)),
		ppp("IPv6 cut in its header", 0x57, []byte{0x60, 0, 0, 0, 0, 0}),
		ppp("compressed data", 0xfd, big),
		ppp("multilink", 0x3d, big),
	}
	return list
}
