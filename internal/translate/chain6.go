package translate

import "weft/internal/state"

// chain is what the extension headers of an IPv6 packet lead to.
type chain struct {
	protocol byte // of the payload
	payload  int  // offset in the packet, bytes
	frag     fragment
	pointer  int // where the trouble is, for ICMPv6 Parameter Problem, bytes
}

// follow walks the extension headers of an IPv6 packet (RFC 7915 section 5.1):
// hop-by-hop and destination options and used-up routing headers are skipped,
// a fragment header is read. No header but the payload's may come after that
// one (section 5.1.1). Not following is an outcome of its own.
func follow(pkt []byte) (chain, state.Outcome) {
	c := chain{protocol: pkt[6], payload: header6Len}
	for n := 0; ; n++ {
		switch c.protocol {
		case headerAuth, protocolICMP4, protocolIGMP: // the latter two belong to IPv4 alone
			return c, state.DropProtocol
		case headerHopByHop, headerDestOptions, headerRouting, headerFragment:
		default:
			return c, state.OutcomeNone
		}
		if c.frag.present || n == maxExtensionHeaders {
			return c, state.DropExtensionHeaders
		}
		length, ok := extensionLength(pkt, c.protocol, c.payload)
		if !ok {
			return c, state.DropTruncated
		}
		header := pkt[c.payload : c.payload+length]
		switch {
		case c.protocol == headerFragment:
			c.frag = readFragment(header)
		case c.protocol == headerRouting && header[3] != 0: // segments left
			c.pointer = c.payload + 3
			return c, state.DropSourceRoute
		}
		c.protocol = header[0]
		c.payload += length
	}
}

// extensionLength returns the length of the extension header at pkt[at:] in
// bytes, and whether it lies inside the packet.
func extensionLength(pkt []byte, kind byte, at int) (int, bool) {
	if at+8 > len(pkt) {
		return 0, false
	}
	length := fragmentLen
	if kind != headerFragment {
		length = (int(pkt[at+1]) + 1) * 8
	}
	return length, at+length <= len(pkt)
}

func readFragment(header []byte) fragment {
	word := get16(header[2:])
	return fragment{present: true, id: get32(header[4:]), offset: int(word &^ 7), more: word&1 != 0}
}

// carriesError6 reports whether an IPv6 packet is an ICMPv6 error or a redirect,
// neither of which is ever answered with an error (RFC 4443 section 2.4 (e)).
// A later fragment of an ICMPv6 message counts, as it may be one.
func carriesError6(pkt []byte) bool {
	kind, at := pkt[6], header6Len
	for {
		switch kind {
		case protocolICMP6:
			return at >= len(pkt) || pkt[at] < 128 || pkt[at] == 137
		case headerHopByHop, headerDestOptions, headerRouting, headerFragment:
		default:
			return false
		}
		length, ok := extensionLength(pkt, kind, at)
		if !ok {
			return false
		}
		if kind == headerFragment && !readFragment(pkt[at:at+length]).first() {
			return pkt[at] == protocolICMP6
		}
		kind = pkt[at]
		at += length
	}
}
