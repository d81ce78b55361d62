package translate

import "weft/wire/checksum"

import "weft/internal/state"

// icmp6to4 translates an ICMPv6 message (RFC 7915 section 5.2); the result
// has header4Len bytes of room before it. Parts of one cannot be translated,
// as the checksum covers all of it (section 1.2).
func (c *Config) icmp6to4(msg []byte, frag fragment, p pair) ([]byte, state.Outcome) {
	if !frag.whole() {
		return nil, state.DropIcmpFragment
	}
	if len(msg) < icmpLen {
		return nil, state.DropTruncated
	}
	if msg[0] < 128 {
		return c.error6to4(msg, p)
	}
	out := make([]byte, header4Len+len(msg))
	copy(out[header4Len:], msg)
	d := delta{from: p.sum6() + checksum.Pseudo(len(msg), protocolICMP6)}
	return out, echo(out[header4Len:], echo6to4, d, false)
}

// error6to4 translates an ICMPv6 error with the packet that it quotes (RFC
// 7915 sections 5.2, 5.3).
func (c *Config) error6to4(msg []byte, p pair) ([]byte, state.Outcome) {
	kind, code, ok := error6Type(msg[0], msg[1])
	if !ok {
		return nil, state.DropIcmpType
	}
	quote, ext := msg[icmpLen:], []byte(nil)
	if msg[0] == icmp6Unreachable || msg[0] == icmp6TimeExceeded {
		quote, ext = extensions(quote, int(msg[4])*8) // RFC 4884 sections 4.4, 4.5
	}
	quoted, fragmented, o := c.quoted6to4(quote)
	if o != state.OutcomeNone {
		return nil, o
	}
	var rest uint32
	switch {
	case msg[0] == icmp6TooBig:
		rest = uint32(c.mtu6to4(get32(msg[4:]), fragmented))
	case kind == icmp4Parameter:
		pointer, ok := pointer6to4(get32(msg[4:]))
		if !ok {
			return nil, state.DropIcmpType
		}
		rest = uint32(pointer) << 24
	}
	room := maxError4 - header4Len - icmpLen
	out := newError(header4Len, kind, code, rest, quoted, ext, room, 4, 1) // RFC 4884 section 4.1
	reseal(out[header4Len:], msg, p.sum6()+checksum.Pseudo(len(msg), protocolICMP6), 0)
	return out, state.OutcomeNone
}

// reseal gives msg, whose checksum is zero, the checksum of old adjusted by
// all that has changed, so that a wrong one stays wrong. The two sums are the
// pseudo headers.
func reseal(msg, old []byte, oldPseudo, newPseudo uint32) {
	from := checksum.Sum(old[4:], checksum.Sum(old[:2], oldPseudo))
	put16(msg[2:], checksum.Adjust(get16(old[2:]), from, checksum.Sum(msg, newPseudo)))
}

// error6Type returns the ICMPv4 type and code of an ICMPv6 error (RFC 7915
// section 5.2, figure 5 for what has a pointer). The others are dropped.
func error6Type(kind, code byte) (byte, byte, bool) {
	switch kind {
	case icmp6Unreachable:
		switch code {
		case 0, 2, 3: // no route, beyond scope, address unreachable
			return icmp4Unreachable, 1, true
		case 1: // prohibited
			return icmp4Unreachable, 10, true
		case 4: // port unreachable
			return icmp4Unreachable, 3, true
		}
	case icmp6TooBig:
		return icmp4Unreachable, icmp4FragNeeded, true
	case icmp6TimeExceeded:
		return icmp4TimeExceeded, code, true
	case icmp6Parameter:
		switch code {
		case 0: // erroneous field
			return icmp4Parameter, 0, true
		case 1: // unknown next header: protocol unreachable
			return icmp4Unreachable, 2, true
		}
	}
	return 0, 0, false
}

// pointer6to4 translates the pointer of a Parameter Problem (RFC 7915 section
// 5.2, figure 6).
func pointer6to4(pointer uint32) (byte, bool) {
	switch {
	case pointer <= 1: // version and traffic class
		return byte(pointer), true
	case pointer == 4 || pointer == 5: // payload length
		return 2, true
	case pointer == 6: // next header
		return 9, true
	case pointer == 7: // hop limit
		return 8, true
	case pointer >= 8 && pointer < 24: // source
		return 12, true
	case pointer >= 24 && pointer < 40: // destination
		return 16, true
	}
	return 0, false
}

// mtu6to4 translates the MTU of a Packet Too Big (RFC 7915 section 5.2): the
// header shrinks by 20 bytes, with a fragment header by 28.
func (c *Config) mtu6to4(mtu uint32, fragmented bool) int {
	shrink := header6Len - header4Len
	if fragmented {
		shrink += fragmentLen
	}
	m := int(min(mtu, 1<<24)) - shrink
	if c.MTU6 != 0 {
		m = min(m, c.MTU6-(header6Len-header4Len))
	}
	return max(min(m, c.limit4()), minMTU4)
}
