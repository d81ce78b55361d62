package translate

import "weft/wire/checksum"

import "weft/internal/state"

// delta is what translation takes out of a pseudo header and what it puts in:
// the sums of the addresses before and after.
type delta struct{ from, to uint32 }

// tcp adjusts the checksum of a TCP segment, or of the first fragment of one,
// in place.
func (c *Config) tcp(seg []byte, d delta) state.Outcome {
	if len(seg) < tcpLen {
		return state.DropTruncated
	}
	adjustAt(seg, 16, d.from, d.to)
	if c.ClampMSS {
		c.clamp(seg)
	}
	return state.OutcomeNone
}

// largestMSS is MaxMSS, or the MSS that fits both links: IPv4 and IPv6 header, each with
// 20 bytes of TCP. Zero says that neither MTU is known.
func (c *Config) largestMSS() int {
	if c.MaxMSS != 0 {
		return c.MaxMSS
	}
	mss := 0
	if c.MTU4 != 0 {
		mss = max(c.MTU4, minMTU4) - header4Len - tcpLen
	}
	if c.MTU6 != 0 {
		if m := max(c.MTU6, minMTU6) - header6Len - tcpLen; mss == 0 || m < mss {
			mss = m
		}
	}
	return mss
}

// clamp lowers the MSS option of a SYN (RFC 9293 section 3.2). Options that do
// not parse are left alone, as is a segment whose header is cut off.
func (c *Config) clamp(seg []byte) {
	const syn = 0x02
	limit, end := c.largestMSS(), int(seg[12]>>4)*4
	if limit == 0 || seg[13]&syn == 0 || end > len(seg) {
		return
	}
	for at := tcpLen; at+1 < end; {
		switch kind, length := seg[at], int(seg[at+1]); {
		case kind == 0:
			return
		case kind == 1:
			at++
		case length < 2 || at+length > end:
			return
		case kind == 2 && length == 4:
			lowerMSS(seg, at+2, limit)
			return
		default:
			at += length
		}
	}
}

// lowerMSS sets the two bytes at seg[at:] to limit if they are above it.
func lowerMSS(seg []byte, at, limit int) {
	old := get16(seg[at:])
	if int(old) <= limit {
		return
	}
	put16(seg[at:], uint16(limit))
	from, to := uint32(old), uint32(limit)
	if at%2 != 0 { // the option straddles two words of the checksum
		from, to = from>>8|from<<8&0xff00, to>>8|to<<8&0xff00
	}
	adjustAt(seg, 16, from, to)
}

// checkUDP checks the lengths of a datagram; a first fragment (whole false)
// says more than it carries.
func checkUDP(seg []byte, whole bool) state.Outcome {
	if len(seg) < udpLen {
		return state.DropTruncated
	}
	if n := int(get16(seg[4:])); n < udpLen || whole && n > len(seg) {
		return state.DropBadHeader
	}
	return state.OutcomeNone
}

// udp6to4 adjusts a datagram in place. Zero stays zero: on both sides it says
// that there is no checksum (RFC 768, RFC 6935 section 5).
func udp6to4(seg []byte, whole bool, d delta) state.Outcome {
	if o := checkUDP(seg, whole); o != state.OutcomeNone {
		return o
	}
	adjustUDP(seg, d)
	return state.OutcomeNone
}

// udp4to6 adjusts a datagram in place; where IPv4 came without a checksum it
// computes one or refuses (RFC 7915 section 4.5). It cannot for a fragment.
func (c *Config) udp4to6(seg []byte, whole bool, p pair, d delta) state.Outcome {
	if o := checkUDP(seg, whole); o != state.OutcomeNone {
		return o
	}
	if get16(seg[6:]) != 0 {
		adjustUDP(seg, d)
		return state.OutcomeNone
	}
	if !whole || !c.ComputeUDPZero {
		return state.DropUdpZeroChecksum
	}
	length := int(get16(seg[4:]))
	putUDP(seg, ^checksum.Fold(checksum.Sum(seg[:length], p.sum6()+checksum.Pseudo(length, protocolUDP))))
	return state.OutcomeNone
}

func adjustUDP(seg []byte, d delta) {
	if check := get16(seg[6:]); check != 0 {
		putUDP(seg, checksum.Adjust(check, d.from, d.to))
	}
}

// putUDP stores a checksum; one that comes out as zero is sent as all ones
// (RFC 768).
func putUDP(seg []byte, check uint16) {
	if check == 0 {
		check = 0xffff
	}
	put16(seg[6:], check)
}
