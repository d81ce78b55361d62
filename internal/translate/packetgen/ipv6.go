package packetgen

import "net/netip"

// Next6 returns a raw IPv6 packet for Translate6 and words for what is special
// about it, joined by slashes, the payload's kind among them.
func (g *Gen) Next6() (pkt []byte, kind string) {
	src, dst := g.addresses6()
	chain, kinds := g.extensions6()
	room, fragmented := maxSize-40-len(chain), g.chance(10)
	if fragmented {
		room -= 16 // its header and perhaps one more
	}
	payload, protocol := g.payload(src, dst, room)
	if fragmented {
		payload, chain, kinds = g.fragment6(payload, chain, kinds)
	}
	body := append(chain, payload...)
	next := protocol
	link(body, kinds, &next)
	return g.damage(g.header6(src, dst, next, g.ttl(), body)), g.take()
}

func (g *Gen) addresses6() (src, dst netip.Addr) {
	src, dst = g.node6(), g.far6()
	if !g.chance(10) {
		return src, dst
	}
	switch g.r.IntN(5) {
	case 0:
		g.note("dst-stranger")
		dst = g.outsider6()
	case 1:
		g.note("dst-link")
		dst = pick(g, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff02::1"), netip.MustParseAddr("ff0e::5"))
	case 2:
		g.note("src-unmapped")
		src = g.outsider6()
	case 3:
		g.note("src-illegal")
		src = pick(g, netip.IPv6Unspecified(), netip.IPv6Loopback(),
			netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff02::2"))
	case 4:
		if p := g.cfg.Table.Prefix(); p.IsValid() {
			g.note("dst-illegal")
			if v6, ok := g.cfg.Table.To6(g.odd4()); ok {
				dst = v6
			}
		}
	}
	return src, dst
}

// extensions6 builds extension headers, most often none, and tells their kinds.
func (g *Gen) extensions6() (chain, kinds []byte) {
	if !g.chance(20) {
		return nil, nil
	}
	count := 1 + g.r.IntN(3)
	if g.chance(5) {
		g.note("many-extensions")
		count = 7 + g.r.IntN(4)
	}
	for range count {
		kind := pick[byte](g, 0, 60, 43)
		units := g.r.IntN(3)
		header := make([]byte, 8+8*units)
		header[1] = byte(units)
		switch kind {
		case 43:
			g.note("routing-used-up")
			header[2] = pick[byte](g, 0, 2, 3, 4)
			if g.chance(25) {
				g.note("routing")
				header[3] = byte(1 + g.r.IntN(3))
			}
		default:
			g.note("options6")
			header[2], header[3] = 1, byte(len(header)-4) // PadN
		}
		chain, kinds = append(chain, header...), append(kinds, kind)
	}
	if g.chance(4) {
		g.note("extension-length")
		chain[1] = 200
	}
	return chain, kinds
}

// fragment6 appends a fragment header to the chain and cuts the payload.
func (g *Gen) fragment6(payload, chain, kinds []byte) (p, ch, k []byte) {
	header := make([]byte, 8)
	copy(header[4:], g.bytes(4))
	switch g.r.IntN(3) {
	case 0:
		g.note("fragment-atomic")
	case 1:
		g.note("fragment-first")
		header[3] = 1
		payload = payload[:g.r.IntN(len(payload)/8+1)*8]
	case 2:
		g.note("fragment-later")
		word := g.r.IntN(8192)
		if g.chance(90) {
			word %= 1000
		}
		put16(header[2:], word<<3|g.r.IntN(2))
	}
	if g.chance(5) {
		g.note("extension-after-fragment")
		return payload, append(append(chain, header...), 0, 0, 1, 4, 0, 0, 0, 0), append(kinds, 44, 60)
	}
	return payload, append(chain, header...), append(kinds, 44)
}

// link writes the next-header fields of the chain at the front of body. next
// is the payload's protocol before and the first header's kind after.
func link(body, kinds []byte, next *byte) {
	first, at := *next, 0
	if len(kinds) > 0 {
		first = kinds[0]
	}
	for i, kind := range kinds {
		length := 8
		if kind != 44 {
			length = (int(body[at+1]) + 1) * 8
		}
		if i+1 < len(kinds) {
			body[at] = kinds[i+1]
		} else {
			body[at] = *next
		}
		if at += length; at >= len(body) {
			break // a length that lies
		}
	}
	*next = first
}

func (g *Gen) header6(src, dst netip.Addr, next, hop byte, body []byte) []byte {
	pkt := append(g.bytes(40), body...)
	pkt[0] = 0x60 | pkt[0]&0xf
	put16(pkt[4:], len(body))
	pkt[6], pkt[7] = next, hop
	copy(pkt[8:], src.AsSlice())
	copy(pkt[24:], dst.AsSlice())
	return pkt
}

func (g *Gen) plain6(src, dst netip.Addr, most int) []byte {
	seg, protocol := g.plain(src, dst, most)
	return g.header6(src, dst, protocol, 60, seg)
}

// damage cuts a packet, pads it or makes its length lie, if at all.
func (g *Gen) damage(pkt []byte) []byte {
	if !g.chance(10) {
		return pkt
	}
	length, header := pkt[4:6], 40
	if pkt[0]>>4 == 4 {
		length, header = pkt[2:4], 0
	}
	switch g.r.IntN(5) {
	case 0:
		g.note("cut")
		return pkt[:g.r.IntN(len(pkt))]
	case 1:
		g.note("padded")
		return append(pkt, g.bytes(min(1+g.r.IntN(20), maxSize-len(pkt)))...)
	case 2:
		g.note("length-over")
		put16(length, len(pkt)-header+1+g.r.IntN(100))
	case 3:
		g.note("length-under")
		put16(length, g.r.IntN(len(pkt)-header+1))
	case 4:
		g.note("version")
		pkt[0] ^= byte(1+g.r.IntN(15)) << 4
		return pkt
	}
	fixHeaderChecksum(pkt)
	return pkt
}
