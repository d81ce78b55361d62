package translate

import (
	"net/netip"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Translate6 translates one raw IPv6 packet to IPv4 (RFC 7915 section 5). The
// order of the checks is in the package documentation.
func (c *Config) Translate6(pkt []byte) Result {
	pkt, o := cut6(pkt)
	if o != state.OutcomeNone {
		return drop(o)
	}
	p, o := c.addresses6(pkt)
	if o != state.OutcomeNone {
		return c.refuse6(pkt, o, 0)
	}
	hop := pkt[7]
	if c.DecrementTTL {
		if hop <= 1 {
			return c.refuse6(pkt, state.DropHopLimit, 0)
		}
		hop--
	}
	ch, o := follow(pkt)
	if o != state.OutcomeNone {
		return c.refuse6(pkt, o, uint32(ch.pointer))
	}
	out, o := c.payload6to4(pkt[ch.payload:], ch, p)
	if o != state.OutcomeNone {
		return c.refuse6(pkt, o, 0)
	}
	h := c.header6to4(len(out), ch)
	h.tos, h.ttl, h.src, h.dst = c.tos(trafficClass(pkt)), hop, p.src4, p.dst4
	return c.send4(pkt, h, out)
}

// addresses6 decides whether the packet is for the translator and finds its
// addresses.
func (c *Config) addresses6(pkt []byte) (pair, state.Outcome) {
	p := pair{src6: src6(pkt), dst6: dst6(pkt)}
	if linkScope6(p.dst6) {
		return p, state.PassLinkScope
	}
	var ok bool
	// an IPv6 node is reached as it is
	if p.dst4, ok = c.Table.To4(p.dst6); !ok || c.node6(p.dst6) {
		return p, state.PassNotTranslated
	}
	if illegalSource6(p.src6) || illegal4(p.dst4) || c.forbidden(p.dst6, p.dst4) {
		return p, state.DropIllegalAddress
	}
	if p.src4, ok = c.Table.To4(p.src6); ok {
		if illegal4(p.src4) || c.forbidden(p.src6, p.src4) {
			return p, state.DropIllegalAddress
		}
		if c.node6(p.src6) {
			return p, state.OutcomeNone
		}
	}
	if carriesError6(pkt) {
		if p.src4, ok = c.errorSource4(p.src6); ok {
			return p, state.OutcomeNone
		}
	}
	return p, state.DropSourceUnmapped
}

// payload6to4 returns the payload as IPv4 carries it, after header4Len bytes of
// room for the header.
func (c *Config) payload6to4(in []byte, ch chain, p pair) ([]byte, state.Outcome) {
	if ch.frag.overflows(len(in)) {
		return nil, state.DropBadHeader
	}
	if ch.protocol == protocolICMP6 {
		return c.icmp6to4(in, ch.frag, p)
	}
	out := make([]byte, header4Len+len(in))
	seg := out[header4Len:]
	copy(seg, in)
	if !ch.frag.first() {
		return out, state.OutcomeNone
	}
	d := delta{from: p.sum6(), to: p.sum4()}
	switch ch.protocol {
	case protocolTCP:
		return out, c.tcp(seg, d)
	case protocolUDP:
		return out, udp6to4(seg, ch.frag.whole(), d)
	}
	return out, state.OutcomeNone // RFC 7915 section 5.5: forward the others as they are
}

// header6to4 fills what RFC 7915 sections 5.1 and 5.1.1 derive from the
// length (bytes, header included) and from the chain of headers.
func (c *Config) header6to4(total int, ch chain) ipv4 {
	h := ipv4{total: total, protocol: ch.protocol, frag: ch.frag}
	if h.protocol == protocolICMP6 {
		h.protocol = protocolICMP4
	}
	if ch.frag.present {
		h.id = uint16(ch.frag.id)
	} else {
		h.id = c.identification()
		h.dont = total > tooSmallDF
	}
	return h
}

// send4 writes the header and sends the packet, in pieces if it is too large
// for the IPv4 link although the IPv6 sender kept to the smallest MTU that
// IPv6 knows: it need not go lower, and IPv4 routers fragment such packets
// (RFC 7915 section 5). From any other sender less is asked.
func (c *Config) send4(pkt []byte, h ipv4, out []byte) Result {
	if limit := c.limit4(); len(out) > limit {
		if len(pkt) > minMTU6 && !c.Recut {
			return c.refuse6(pkt, state.DropTooBig, c.mtuFor6())
		}
		return Result{Outcome: state.Forward6to4, Out: split4(h, out[header4Len:], limit)}
	}
	h.put(out)
	return Result{Outcome: state.Forward6to4, Out: [][]byte{out}}
}

// mtuFor6 is the MTU in an ICMPv6 packet too big for an IPv6 sender.
func (c *Config) mtuFor6() uint32 {
	mtu := c.limit4() + header6Len - header4Len
	if c.MTU6 != 0 {
		mtu = min(mtu, c.MTU6)
	}
	return uint32(max(mtu, minMTU6))
}

// refuse6 ends a packet that is not translated, with the error that its
// sender is due (RFC 7915 sections 5.1, 5.4). param is the second word of that
// error: a pointer or an MTU.
func (c *Config) refuse6(pkt []byte, o state.Outcome, param uint32) Result {
	r := Result{Outcome: o}
	switch o {
	case state.DropSourceUnmapped, state.DropExtensionHeaders, state.DropProtocol:
		r.Reply = c.reply6(pkt, icmp6Unreachable, 1, 0) // administratively prohibited
	case state.DropSourceRoute:
		r.Reply = c.reply6(pkt, icmp6Parameter, 0, param)
	case state.DropHopLimit:
		r.Reply = c.reply6(pkt, icmp6TimeExceeded, 0, 0)
	case state.DropTooBig:
		r.Reply = c.reply6(pkt, icmp6TooBig, 0, param)
	}
	return r
}

// quoted6to4 translates the packet that an ICMPv6 error quotes. It may be cut
// off anywhere after its headers; its hop limit stays (RFC 7915 section 5.3).
// The second value tells whether it has a fragment header.
func (c *Config) quoted6to4(pkt []byte) ([]byte, bool, state.Outcome) {
	if len(pkt) < header6Len {
		return nil, false, state.DropTruncated
	}
	claimed := header6Len + int(get16(pkt[4:]))
	if pkt[0]>>4 != 6 {
		return nil, false, state.DropBadHeader
	}
	pkt = pkt[:min(len(pkt), claimed)]
	p, o := c.quotedAddresses6(src6(pkt), dst6(pkt))
	if o != state.OutcomeNone {
		return nil, false, o
	}
	ch, o := follow(pkt)
	if o != state.OutcomeNone {
		return nil, false, o
	}
	length := claimed - ch.payload
	if header4Len+length > maxPacket4 {
		return nil, false, state.DropBadHeader
	}
	out := make([]byte, header4Len+len(pkt)-ch.payload)
	seg := out[header4Len:]
	copy(seg, pkt[ch.payload:])
	if ch.frag.first() {
		if ch.protocol == protocolICMP6 {
			o = echo(seg, echo6to4, delta{from: p.sum6() + checksum.Pseudo(length, protocolICMP6)}, true)
		} else {
			adjustQuoted(seg, ch.protocol, delta{from: p.sum6(), to: p.sum4()})
		}
		if o != state.OutcomeNone {
			return nil, false, o
		}
	}
	h := c.header6to4(header4Len+length, ch)
	h.tos, h.ttl, h.src, h.dst = c.tos(trafficClass(pkt)), pkt[7], p.src4, p.dst4
	h.put(out)
	return out, ch.frag.present, state.OutcomeNone
}

func (c *Config) quotedAddresses6(src, dst netip.Addr) (pair, state.Outcome) {
	p := pair{src6: src, dst6: dst}
	var ok bool
	if p.src4, ok = c.Table.To4(src); !ok {
		return p, state.DropSourceUnmapped
	}
	if p.dst4, ok = c.Table.To4(dst); !ok {
		return p, state.DropDestinationUnmapped
	}
	return p, state.OutcomeNone
}
