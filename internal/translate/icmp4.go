package translate

import "weft/wire/checksum"

import "weft/internal/state"

// icmp4to6 translates an ICMPv4 message (RFC 7915 section 4.2); the result
// has headroom bytes before it. Parts of one cannot be translated, as the
// ICMPv6 checksum covers the length of all of it (section 1.2).
func (c *Config) icmp4to6(msg []byte, frag fragment, p pair) ([]byte, state.Outcome) {
	if !frag.whole() {
		return nil, state.DropIcmpFragment
	}
	if len(msg) < icmpLen {
		return nil, state.DropTruncated
	}
	switch msg[0] {
	case icmp4Unreachable, icmp4TimeExceeded, icmp4Parameter:
		return c.error4to6(msg, p)
	}
	out := make([]byte, headroom+len(msg))
	copy(out[headroom:], msg)
	d := delta{to: p.sum6() + checksum.Pseudo(len(msg), protocolICMP6)}
	return out, echo(out[headroom:], echo4to6, d, false)
}

// error4to6 translates an ICMPv4 error with the packet that it quotes (RFC
// 7915 sections 4.2, 4.3).
func (c *Config) error4to6(msg []byte, p pair) ([]byte, state.Outcome) {
	kind, code, ok := error4Type(msg[0], msg[1])
	if !ok {
		return nil, state.DropIcmpType
	}
	quote, ext := quote4(msg, kind)
	quoted, o := c.quoted4to6(quote)
	if o != state.OutcomeNone {
		return nil, o
	}
	var rest uint32
	switch {
	case kind == icmp6TooBig:
		rest = uint32(c.mtu4to6(get16(msg[6:]), get16(quote[2:])))
	case msg[0] == icmp4Parameter:
		if rest, ok = pointer4to6(msg[4]); !ok {
			return nil, state.DropIcmpType
		}
	case kind == icmp6Parameter:
		rest = 6 // protocol unreachable points at next header
	}
	room := maxError6 - header6Len - icmpLen
	out := newError(headroom, kind, code, rest, quoted, ext, room, 8, 0) // RFC 4884 section 4.4
	fresh := out[headroom:]
	reseal(fresh, msg, 0, p.sum6()+checksum.Pseudo(len(fresh), protocolICMP6))
	return out, state.OutcomeNone
}

// quote4 returns what an ICMPv4 error quotes, and its extensions (RFC 4884
// sections 4.1 to 4.3) where the ICMPv6 error that it becomes can carry them.
func quote4(msg []byte, kind6 byte) (quote, ext []byte) {
	quote, ext = extensions(msg[icmpLen:], int(msg[5])*4)
	if kind6 == icmp6TooBig || kind6 == icmp6Parameter {
		ext = nil // RFC 4884 section 4: these carry none
	}
	return quote, ext
}

// error4Type returns the ICMPv6 type and code of an ICMPv4 error (RFC 7915
// section 4.2). The others are dropped.
func error4Type(kind, code byte) (byte, byte, bool) {
	switch kind {
	case icmp4Unreachable:
		return unreachable4(code)
	case icmp4TimeExceeded:
		return icmp6TimeExceeded, code, true
	case icmp4Parameter:
		if code == 0 || code == 2 { // erroneous field, bad length
			return icmp6Parameter, 0, true
		}
	}
	return 0, 0, false
}

func unreachable4(code byte) (byte, byte, bool) {
	switch code {
	case 0, 1, 5, 6, 7, 8, 11, 12: // network, host, source route, unknown, isolated, TOS
		return icmp6Unreachable, 0, true
	case 2: // protocol: unknown next header
		return icmp6Parameter, 1, true
	case 3: // port
		return icmp6Unreachable, 4, true
	case icmp4FragNeeded:
		return icmp6TooBig, 0, true
	case 9, 10, 13, 15: // prohibited, precedence cut-off
		return icmp6Unreachable, 1, true
	}
	return 0, 0, false
}

// pointer4to6 translates the pointer of a Parameter Problem (RFC 7915 section
// 4.2, figure 3).
func pointer4to6(pointer byte) (uint32, bool) {
	switch {
	case pointer <= 1: // version, TOS
		return uint32(pointer), true
	case pointer == 2 || pointer == 3: // total length
		return 4, true
	case pointer == 8: // TTL
		return 7, true
	case pointer == 9: // protocol
		return 6, true
	case pointer >= 12 && pointer < 16: // source
		return 8, true
	case pointer >= 16 && pointer < 20: // destination
		return 24, true
	}
	return 0, false
}

// mtu4to6 translates the MTU of a Fragmentation Needed (RFC 7915 section 4.2).
// A router that does not say (RFC 1191 section 5) is answered for with the
// greatest likely MTU below the length of the packet, total.
func (c *Config) mtu4to6(mtu, total uint16) int {
	const grow = header6Len - header4Len
	if mtu == 0 {
		mtu = plateau(total)
	}
	m := int(mtu) + grow
	if c.MTU6 != 0 {
		m = min(m, c.MTU6)
	}
	if c.MTU4 != 0 {
		m = min(m, c.MTU4+grow)
	}
	return max(m, minMTU6)
}

// plateau returns the greatest value of the table in RFC 1191 section 7.1 that
// is below total and not below the smallest MTU of IPv6; zero if none is.
func plateau(total uint16) uint16 {
	for _, p := range [...]uint16{32000, 17914, 8166, 4352, 2002, 1492} {
		if p < total {
			return p
		}
	}
	return 0
}
