package translate

import (
	"net/netip"

	"weft/internal/state"
	"weft/wire/checksum"
)

// Translate4 translates one raw IPv4 packet to IPv6 (RFC 7915 section 4). The
// order of the checks is in the package documentation.
func (c *Config) Translate4(pkt []byte) Result {
	pkt, o := cut4(pkt)
	if o != state.OutcomeNone {
		return drop(o)
	}
	if o := c.scope4(dst4(pkt)); o != state.OutcomeNone {
		return drop(o)
	}
	ihl := ihl4(pkt)
	if checksum.Sum(pkt[:ihl], 0) != 0xffff {
		return drop(state.DropIpv4Checksum)
	}
	if o := checkOptions(pkt[header4Len:ihl]); o != state.OutcomeNone {
		return c.refuse4(pkt, o, 0)
	}
	p, o := c.addresses4(pkt)
	if o != state.OutcomeNone {
		return c.refuse4(pkt, o, 0)
	}
	ttl := pkt[8]
	if c.DecrementTTL {
		if ttl <= 1 {
			return c.refuse4(pkt, state.DropHopLimit, 0)
		}
		ttl--
	}
	if !crosses4(pkt[9]) {
		return c.refuse4(pkt, state.DropProtocol, 0)
	}
	h := ipv6{class: c.tos(pkt[1]), protocol: protocol4to6(pkt[9]), hop: ttl, src: p.src6, dst: p.dst6}
	frag, dont := fragment4(pkt)
	h.frag = frag
	out, o := c.payload4to6(pkt[ihl:], h, p)
	if o != state.OutcomeNone {
		return c.refuse4(pkt, o, 0)
	}
	return c.send6(pkt, h, out, dont)
}

// scope4 reports whether packets to dst are for the translator.
func (c *Config) scope4(dst netip.Addr) state.Outcome {
	switch {
	case linkScope4(dst):
		return state.PassLinkScope
	case !c.node4(dst):
		return state.PassNotTranslated
	}
	return state.OutcomeNone
}

// addresses4 finds the addresses of a packet that is for the translator. The
// source of an ICMP error may be illegal, so that trouble can be traced (RFC
// 7915 section 4.1), or, without a prefix, unknown: then it is the router's.
func (c *Config) addresses4(pkt []byte) (pair, state.Outcome) {
	p := pair{src4: src4(pkt), dst4: dst4(pkt)}
	isError := carriesError4(pkt)
	if illegal4(p.dst4) || illegal4(p.src4) && !isError {
		return p, state.DropIllegalAddress
	}
	var ok bool
	if p.dst6, ok = c.Table.To6(p.dst4); !ok {
		return p, state.DropDestinationUnmapped
	}
	if c.forbidden(p.dst6, p.dst4) {
		return p, state.DropIllegalAddress
	}
	if p.src6, ok = c.Table.remote6(p.src4, p.dst4); !ok {
		if !isError || !c.Router6.Is6() {
			return p, state.DropSourceUnmapped
		}
		p.src6 = c.Router6
	}
	if c.forbidden(p.src6, p.src4) && !isError {
		return p, state.DropIllegalAddress
	}
	return p, state.OutcomeNone
}

// crosses4 reports whether IPv6 may carry an IPv4 protocol number. IGMP and the
// authentication header cannot be translated (RFC 7915 sections 4.2, 5.1.1); the
// numbers of IPv6's own headers would turn a payload into unchecked headers.
func crosses4(protocol byte) bool {
	switch protocol {
	case protocolIGMP, headerAuth, protocolICMP6,
		headerHopByHop, headerRouting, headerFragment, headerDestOptions:
		return false
	}
	return true
}

func protocol4to6(protocol byte) byte {
	if protocol == protocolICMP4 {
		return protocolICMP6
	}
	return protocol
}

// headroom is what payload4to6 leaves before the payload: an IPv6 header and a
// fragment header, whether it will be needed or not.
const headroom = header6Len + fragmentLen

// payload4to6 returns the payload as IPv6 carries it, after headroom bytes.
func (c *Config) payload4to6(in []byte, h ipv6, p pair) ([]byte, state.Outcome) {
	if h.frag.overflows(len(in)) {
		return nil, state.DropBadHeader
	}
	if h.protocol == protocolICMP6 {
		return c.icmp4to6(in, h.frag, p)
	}
	out := make([]byte, headroom+len(in))
	seg := out[headroom:]
	copy(seg, in)
	if !h.frag.first() {
		return out, state.OutcomeNone
	}
	d := delta{from: p.sum4(), to: p.sum6()}
	switch h.protocol {
	case protocolTCP:
		return out, c.tcp(seg, d)
	case protocolUDP:
		return out, c.udp4to6(seg, h.frag.whole(), p, d)
	}
	return out, state.OutcomeNone // RFC 7915 section 4.5: forward the others as they are
}

// send6 writes the headers and sends the packet: whole if it may be (RFC 7915
// section 4.1), in fragments if DF is clear, else not at all. There is a
// fragment header only where there are fragments (RFC 8021).
func (c *Config) send6(pkt []byte, h ipv6, out []byte, dont bool) Result {
	size := h.size() + len(out) - headroom
	switch {
	case dont && !c.fits6(size):
		return c.refuse4(pkt, state.DropTooBig, c.mtuFor4(len(pkt)))
	case !dont && size > c.lowestMTU6():
		h.frag.id = uint32(get16(pkt[4:]))
		return Result{Outcome: state.Forward4to6, Out: split6(h, out[headroom:], c.lowestMTU6())}
	}
	h.payload = size - header6Len
	out = out[headroom-h.size():]
	h.put(out)
	return Result{Outcome: state.Forward4to6, Out: [][]byte{out}}
}

// mtuFor4 is the MTU in an ICMPv4 fragmentation needed for an IPv4 sender. If a
// fragment would fit without the fragment header, the MTU leaves room for that too.
func (c *Config) mtuFor4(total int) uint32 {
	mtu := max(c.MTU6, minMTU6) - (header6Len - header4Len)
	if total <= mtu {
		mtu -= fragmentLen
	}
	return uint32(min(mtu, maxPacket4))
}

// refuse4 ends a packet that is not translated, with the error that its
// sender is due (RFC 7915 sections 4.1, 4.4). param is the second word of that
// error: an MTU.
func (c *Config) refuse4(pkt []byte, o state.Outcome, param uint32) Result {
	r := Result{Outcome: o}
	switch o {
	case state.DropSourceUnmapped, state.DropDestinationUnmapped, state.DropUdpZeroChecksum:
		r.Reply = c.reply4(pkt, icmp4Unreachable, 13, 0) // administratively prohibited
	case state.DropProtocol:
		if pkt[9] != protocolIGMP { // silently, RFC 7915 section 4.2
			r.Reply = c.reply4(pkt, icmp4Unreachable, 13, 0)
		}
	case state.DropSourceRoute:
		r.Reply = c.reply4(pkt, icmp4Unreachable, 5, 0) // source route failed
	case state.DropHopLimit:
		r.Reply = c.reply4(pkt, icmp4TimeExceeded, 0, 0)
	case state.DropTooBig:
		r.Reply = c.reply4(pkt, icmp4Unreachable, icmp4FragNeeded, param)
	}
	return r
}

// quoted4to6 translates the packet that an ICMPv4 error quotes. It may be cut
// off anywhere after its header; TTL and checksum are not looked at, as a
// router may have changed the one without the other (RFC 7915 section 4.3).
func (c *Config) quoted4to6(pkt []byte) ([]byte, state.Outcome) {
	if len(pkt) < header4Len {
		return nil, state.DropTruncated
	}
	ihl, total := ihl4(pkt), int(get16(pkt[2:]))
	if pkt[0]>>4 != 4 || ihl < header4Len || total < ihl {
		return nil, state.DropBadHeader
	}
	if ihl > len(pkt) {
		return nil, state.DropTruncated
	}
	if !crosses4(pkt[9]) {
		return nil, state.DropProtocol
	}
	pkt = pkt[:min(len(pkt), total)]
	p, o := c.quotedAddresses4(src4(pkt), dst4(pkt))
	if o != state.OutcomeNone {
		return nil, o
	}
	h := ipv6{class: c.tos(pkt[1]), protocol: protocol4to6(pkt[9]), hop: pkt[8], src: p.src6, dst: p.dst6}
	h.frag, _ = fragment4(pkt)
	length := total - ihl
	h.payload = h.size() - header6Len + length
	out := make([]byte, h.size()+len(pkt)-ihl)
	seg := out[h.size():]
	copy(seg, pkt[ihl:])
	if h.frag.first() {
		if h.protocol == protocolICMP6 {
			o = echo(seg, echo4to6, delta{to: p.sum6() + checksum.Pseudo(length, protocolICMP6)}, true)
		} else {
			adjustQuoted(seg, h.protocol, delta{from: p.sum4(), to: p.sum6()})
		}
		if o != state.OutcomeNone {
			return nil, o
		}
	}
	h.put(out)
	return out, state.OutcomeNone
}

// quotedAddresses4: the far end of a quoted packet is its destination.
func (c *Config) quotedAddresses4(src, dst netip.Addr) (pair, state.Outcome) {
	p := pair{src4: src, dst4: dst}
	var ok bool
	if p.src6, ok = c.Table.To6(src); !ok {
		return p, state.DropSourceUnmapped
	}
	if p.dst6, ok = c.Table.remote6(dst, src); !ok {
		return p, state.DropDestinationUnmapped
	}
	return p, state.OutcomeNone
}
