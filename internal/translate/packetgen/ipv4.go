package packetgen

import "weft/wire/checksum/checksumtest"

import "net/netip"

// Next4 returns a raw IPv4 packet for Translate4 and words for what is special
// about it, joined by slashes, the payload's kind among them.
func (g *Gen) Next4() (pkt []byte, kind string) {
	src, dst := g.addresses4()
	options := g.options4()
	payload, protocol := g.payload(src, dst, maxSize-20-len(options))
	id, flags := g.r.IntN(65536), 0
	if g.chance(60) {
		g.note("df")
		flags |= 0x4000
	}
	if g.chance(2) {
		flags |= 0x8000 // reserved (RFC 791) or evil (RFC 3514)
	}
	if g.chance(8) {
		var word int
		payload, word = g.fragment4(payload)
		flags |= word
	}
	pkt = header4(src, dst, options, protocol, g.ttl(), id, flags, payload)
	pkt[1] = byte(g.r.Uint32())
	fixHeaderChecksum(pkt)
	if g.chance(3) {
		g.note("header-checksum")
		pkt[10] ^= byte(1 + g.r.IntN(255))
		return pkt, g.take()
	}
	return g.damage(pkt), g.take()
}

func (g *Gen) addresses4() (src, dst netip.Addr) {
	src = g.far4()
	dst, ok := g.node4()
	if !ok {
		dst = g.far4()
	}
	if !g.chance(10) {
		return src, dst
	}
	switch g.r.IntN(4) {
	case 0:
		g.note("dst-stranger")
		dst = g.far4()
	case 1:
		g.note("dst-link")
		dst = pick(g, netip.MustParseAddr("224.0.0.251"), netip.MustParseAddr("255.255.255.255"),
			netip.MustParseAddr("169.254.3.4"))
	case 2:
		g.note("src-illegal")
		src = g.odd4()
	case 3:
		g.note("src-node")
		if v4, ok := g.node4(); ok {
			src = v4
		}
	}
	return src, dst
}

// options4 builds IPv4 options, most often none, padded to a multiple of four.
func (g *Gen) options4() []byte {
	if !g.chance(15) {
		return nil
	}
	var o []byte
	for range 1 + g.r.IntN(3) {
		switch g.r.IntN(6) {
		case 0:
			o = append(o, 1)
		case 1:
			g.note("record-route")
			o = append(o, 7, 7, 4, 0, 0, 0, 0)
		case 2:
			g.note("timestamp")
			o = append(o, 68, 8, 5, 0, 0, 0, 0, 0)
		case 3:
			g.note("source-route")
			o = append(o, pick[byte](g, 131, 137), 7, 4, 192, 0, 2, 1)
		case 4:
			g.note("source-route-used-up")
			o = append(o, pick[byte](g, 131, 137), 7, 8, 192, 0, 2, 1)
		case 5:
			if g.chance(30) {
				g.note("bad-option4")
				o = append(o, pick(g, []byte{7, 0}, []byte{68, 1}, []byte{130, 200}, []byte{131, 2}, []byte{137})...)
			} else {
				o = append(o, 0)
			}
		}
	}
	for len(o)%4 != 0 {
		o = append(o, pick[byte](g, 0, 1))
	}
	return o
}

// fragment4 cuts the payload and gives the flags and offset word.
func (g *Gen) fragment4(payload []byte) ([]byte, int) {
	if g.chance(50) {
		g.note("fragment-first")
		return payload[:g.r.IntN(len(payload)/8+1)*8], 0x2000
	}
	g.note("fragment-later")
	word := 1 + g.r.IntN(8191)
	if g.chance(90) {
		word = 1 + word%1000
	}
	return payload, word | g.r.IntN(2)<<13
}

func header4(src, dst netip.Addr, options []byte, protocol, ttl byte, id, flags int, payload []byte) []byte {
	pkt := make([]byte, 20, 20+len(options)+len(payload))
	pkt = append(append(pkt, options...), payload...)
	pkt[0] = 0x40 | byte(5+len(options)/4)
	put16(pkt[2:], len(pkt))
	put16(pkt[4:], id)
	put16(pkt[6:], flags)
	pkt[8], pkt[9] = ttl, protocol
	copy(pkt[12:], src.AsSlice())
	copy(pkt[16:], dst.AsSlice())
	fixHeaderChecksum(pkt)
	return pkt
}

// fixHeaderChecksum makes the checksum of an IPv4 header right; it leaves
// other packets alone.
func fixHeaderChecksum(pkt []byte) {
	if len(pkt) < 20 || pkt[0]>>4 != 4 {
		return
	}
	end := min(int(pkt[0]&0xf)*4, len(pkt))
	put16(pkt[10:], 0)
	put16(pkt[10:], int(checksumtest.Of(pkt[:max(end, 20)])))
}

func (g *Gen) plain4(src, dst netip.Addr, most int) []byte {
	seg, protocol := g.plain(src, dst, most)
	return header4(src, dst, nil, protocol, 60, g.r.IntN(65536), pick(g, 0, 0x4000), seg)
}
