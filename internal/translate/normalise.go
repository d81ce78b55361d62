package translate

import (
	"bytes"

	"weft/internal/state"
	"weft/wire/checksum"
)

// maxNormalised is how long an ICMPv4 error may be so that, with the IPv6 headers
// being 20 bytes longer, all of it is an ICMPv6 error.
const maxNormalised = maxError6 - (header6Len - header4Len)

// Mend4 makes an IPv4 packet fit for a router that takes neither source routes
// nor ICMP errors larger than the way: a source route that is used up goes, and
// an ICMP error is cut to what its translation will carry (RFC 7915 section
// 4.2, RFC 4443 section 2.4 (c)). With either, all options go: they are not
// translated anyway (RFC 7915 section 4.1). TTL and addresses stay. It tells
// whether there was anything to do; there never is a second time. The result
// shares nothing with pkt.
func Normalise4(pkt []byte) ([]byte, bool) {
	pkt, o := cut4(pkt)
	if o != state.OutcomeNone || checksum.Sum(pkt[:ihl4(pkt)], 0) != 0xffff {
		return nil, false
	}
	options := pkt[header4Len:ihl4(pkt)]
	if checkOptions(options) != state.OutcomeNone {
		return nil, false
	}
	payload, cut := shorter(pkt)
	if !cut && !sourceRouted(options) {
		return nil, false
	}
	out := append(bytes.Clone(pkt[:header4Len]), payload...)
	out[0] = 0x45
	put16(out[2:], uint16(len(out)))
	put16(out[10:], 0)
	put16(out[10:], ^checksum.Fold(checksum.Sum(out[:header4Len], 0)))
	return out, true
}

// shorter returns the payload of pkt, cut if it is an ICMP error that is too
// long. What is kept is what error4to6 would keep.
func shorter(pkt []byte) ([]byte, bool) {
	payload := pkt[ihl4(pkt):]
	frag, _ := fragment4(pkt)
	if pkt[9] != protocolICMP4 || !frag.whole() || len(pkt) <= maxNormalised || len(payload) < icmpLen {
		return payload, false
	}
	kind, _, ok := error4Type(payload[0], payload[1])
	if !ok {
		return payload, false
	}
	quote, ext := quote4(payload, kind)
	rest := get32(payload[4:]) &^ 0xff0000 // without the length attribute
	kept := newError(0, payload[0], payload[1], rest, quote, ext, maxError6-header6Len-icmpLen, 4, 1)
	reseal(kept, payload, 0, 0)
	return kept, true
}

// sourceRouted reports whether there is a source route among the options.
func sourceRouted(options []byte) bool {
	for len(options) > 0 && options[0] != optionEnd {
		if options[0] == optionNop {
			options = options[1:]
			continue
		}
		if options[0] == optionLooseRoute || options[0] == optionStrictRoute {
			return true
		}
		if len(options) < 2 || int(options[1]) < 2 || int(options[1]) > len(options) {
			return false
		}
		options = options[options[1]:]
	}
	return false
}
