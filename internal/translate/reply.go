package translate

import "weft/wire/checksum"

const (
	replyHops    = 64   // RFC 1700 "default TTL"
	replyControl = 0xc0 // precedence 6, internetwork control (RFC 1812 section 4.3.2.5)
)

// reply6 answers an IPv6 packet with an ICMPv6 error that quotes as much of it
// as fits (RFC 4443 section 2.4). nil where none may be sent.
func (c *Config) reply6(pkt []byte, kind, code byte, param uint32) []byte {
	to := src6(pkt)
	if !c.Router6.Is6() || illegalSource6(to) || linkScope6(dst6(pkt)) || carriesError6(pkt) {
		return nil
	}
	size := min(header6Len+icmpLen+len(pkt), maxError6)
	out := make([]byte, size)
	h := ipv6{payload: size - header6Len, protocol: protocolICMP6, hop: replyHops, src: c.Router6, dst: to}
	h.put(out)
	msg := out[header6Len:]
	msg[0], msg[1] = kind, code
	put32(msg[4:], param)
	copy(msg[icmpLen:], pkt)
	p := pair{src6: c.Router6, dst6: to}
	put16(msg[2:], ^checksum.Fold(checksum.Sum(msg, p.sum6()+checksum.Pseudo(len(msg), protocolICMP6))))
	return out
}

// reply4 answers an IPv4 packet with an ICMPv4 error that quotes as much of it
// as fits (RFC 1812 section 4.3.2). nil where none may be sent.
func (c *Config) reply4(pkt []byte, kind, code byte, param uint32) []byte {
	to := src4(pkt)
	frag, _ := fragment4(pkt)
	if !c.Router4.Is4() || illegal4(to) || linkScope4(dst4(pkt)) || !frag.first() || carriesError4(pkt) {
		return nil
	}
	size := min(header4Len+icmpLen+len(pkt), maxError4)
	out := make([]byte, size)
	h := ipv4{tos: replyControl, total: size, id: c.identification(), ttl: replyHops,
		protocol: protocolICMP4, src: c.Router4, dst: to}
	h.put(out)
	msg := out[header4Len:]
	msg[0], msg[1] = kind, code
	put32(msg[4:], param)
	copy(msg[icmpLen:], pkt)
	if c.RestoreTTL {
		quoted := msg[icmpLen:]
		put16(quoted[10:], checksum.Adjust(get16(quoted[10:]), uint32(quoted[8])<<8, uint32(quoted[8]+1)<<8))
		quoted[8]++
	}
	put16(msg[2:], ^checksum.Fold(checksum.Sum(msg, 0)))
	return out
}

// carriesError4 reports whether an IPv4 packet is an ICMPv4 error, which is
// never answered with an error (RFC 1812 section 4.3.2.7).
func carriesError4(pkt []byte) bool {
	ihl := ihl4(pkt)
	frag, _ := fragment4(pkt)
	if pkt[9] != protocolICMP4 || !frag.first() {
		return false
	}
	if ihl >= len(pkt) {
		return true
	}
	switch pkt[ihl] {
	case 3, 4, 5, 11, 12: // RFC 1122 section 3.2.2
		return true
	}
	return false
}
