// Package packetgen makes IPv4 and IPv6 packets for tests: valid ones and odd
// ones, of the kinds that a translator meets, in the address space of a given
// configuration. The same seed gives the same packets. It computes lengths and
// checksums by itself, not with the code under test.
package packetgen

import (
	"math/rand/v2"
	"net/netip"
	"strings"

	"weft/internal/translate"
)

// maxSize is the length in bytes that no packet exceeds.
const maxSize = 1500

// Gen generates packets. It is not safe for concurrent use.
type Gen struct {
	r    *rand.Rand
	cfg  *translate.Config
	kind []string // of the packet in the making
}

// New makes a generator whose packets depend on seed and cfg alone.
func New(seed uint64, cfg *translate.Config) *Gen {
	return &Gen{r: rand.New(rand.NewPCG(seed, 0x77656674)), cfg: cfg}
}

// note adds a word to the kind of the packet in the making.
func (g *Gen) note(word string) { g.kind = append(g.kind, word) }

func (g *Gen) take() string {
	k := strings.Join(g.kind, "/")
	g.kind = g.kind[:0]
	return k
}

// chance is true in percent of the cases.
func (g *Gen) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *Gen) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.r.Uint32())
	}
	return b
}

// size draws a payload length in bytes: small ones, any, and those around the
// smallest MTU of IPv6 and the usual one.
func (g *Gen) size(most int) int {
	var n int
	switch g.r.IntN(4) {
	case 0:
		n = g.r.IntN(16)
	case 1:
		n = 1190 + g.r.IntN(60)
	case 2:
		n = most - g.r.IntN(30)
	default:
		n = g.r.IntN(most + 1)
	}
	return max(0, min(n, most))
}

// ttl is nearly always enough for another hop.
func (g *Gen) ttl() byte {
	if g.chance(4) {
		g.note("ttl")
		return byte(g.r.IntN(2))
	}
	return byte(2 + g.r.IntN(254))
}

// node4 returns the IPv4 address of an IPv6 node; ok is false if the
// configuration has none.
func (g *Gen) node4() (netip.Addr, bool) {
	m, t := g.cfg.Table.Mappings(), g.cfg.Translatable
	if len(m)+len(t) == 0 {
		return netip.Addr{}, false
	}
	if i := g.r.IntN(len(m) + len(t)); i < len(m) {
		return g.inside(m[i].IPv4), true
	} else {
		return g.inside(t[i-len(m)]), true
	}
}

// node6 returns the IPv6 address of an IPv6 node.
func (g *Gen) node6() netip.Addr {
	if v4, ok := g.node4(); ok {
		if v6, ok := g.cfg.Table.To6(v4); ok {
			return v6
		}
	}
	return g.outsider6()
}

// far4 returns the address of an IPv4 node: any that may be embedded, now and
// then a hairpin.
func (g *Gen) far4() netip.Addr {
	if v4, ok := g.node4(); ok && (!g.cfg.Table.Prefix().IsValid() || g.chance(5)) {
		return v4
	}
	for {
		b := [4]byte(g.bytes(4))
		if b[0] != 0 && b[0] != 127 && b[0] < 224 && !(b[0] == 169 && b[1] == 254) {
			return netip.AddrFrom4(b)
		}
	}
}

// far6 returns the address by which an IPv6 node knows an IPv4 node.
func (g *Gen) far6() netip.Addr {
	v4 := g.far4()
	if p := g.cfg.Table.Prefix(); p.IsValid() {
		return translate.Embed(p, v4)
	}
	if v6, ok := g.cfg.Table.To6(v4); ok {
		return v6
	}
	return g.outsider6()
}

// inside draws an address of p.
func (g *Gen) inside(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i, r := range g.bytes(len(b)) {
		host := byte(0xff)
		if fixed := p.Bits() - i*8; fixed >= 8 {
			host = 0
		} else if fixed > 0 {
			host >>= fixed
		}
		b[i] |= r & host
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// stranger6 returns a global address that is very likely not translated.
func (g *Gen) outsider6() netip.Addr {
	b := [16]byte(g.bytes(16))
	b[0], b[1], b[2], b[3] = 0x2a, 0x00, 0x14, 0x50
	return netip.AddrFrom16(b)
}

// odd4 returns an IPv4 address that no packet may be translated from or to.
func (g *Gen) odd4() netip.Addr {
	b := [4]byte(g.bytes(4))
	b[0] = []byte{0, 127, 224, 240, 255}[g.r.IntN(5)]
	return netip.AddrFrom4(b)
}

// pick draws one of the choices.
func pick[T any](g *Gen, choices ...T) T { return choices[g.r.IntN(len(choices))] }

func put16(b []byte, v int) { b[0], b[1] = byte(v>>8), byte(v) }

// pseudo builds a pseudo header (RFC 8200 section 8.1, RFC 9293 section 3.1).
func pseudo(src, dst netip.Addr, length int, protocol byte) []byte {
	b := append(src.AsSlice(), dst.AsSlice()...)
	return append(b, byte(length>>24), byte(length>>16), byte(length>>8), byte(length), 0, 0, 0, protocol)
}
