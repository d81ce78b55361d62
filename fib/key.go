package fib

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// key is an address, its first bit on top of hi. An IPv4 address fills the
// upper half of hi, so that all code below the public calls knows one family.
type key struct{ hi, lo uint64 }

func keyOf(a netip.Addr) key {
	if a.Is4() {
		b := a.As4()
		return key{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k key) addr(f family) netip.Addr {
	if f == ipv4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.hi>>32))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b)
}

// byteAt is the octet that starts at bit depth, a multiple of eight below 128.
func (k key) byteAt(depth int) int {
	if depth < 64 {
		return int(k.hi >> (56 - depth) & 0xff)
	}
	return int(k.lo >> (120 - depth) & 0xff)
}

// first keeps the first n bits and clears the others.
func (k key) first(n int) key {
	if n <= 64 {
		return key{hi: k.hi &^ (^uint64(0) >> n)}
	}
	return key{k.hi, k.lo &^ (^uint64(0) >> (n - 64))}
}

// common is how many leading bits k and o share.
func (k key) common(o key) int {
	if d := k.hi ^ o.hi; d != 0 {
		return bits.LeadingZeros64(d)
	}
	return 64 + bits.LeadingZeros64(k.lo^o.lo)
}

// withByte puts b into the octet that starts at bit depth, which must be zero.
func (k key) withByte(depth, b int) key {
	if depth < 64 {
		k.hi |= uint64(b) << (56 - depth)
	} else {
		k.lo |= uint64(b) << (120 - depth)
	}
	return k
}

func (k key) compare(o key) int {
	switch {
	case k.hi < o.hi || k.hi == o.hi && k.lo < o.lo:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// route is a prefix and its value, as the tables take them in.
type route struct {
	key   key
	len   int
	value uint32
}

// hidden remembers prefixes that more specific ones of the same node cover
// wholly: no slot shows them, yet they return when one of those goes.
// Prefixes to /56 (every IPv4 prefix, most of IPv6) pack into one word.
type hidden struct {
	short map[uint64]uint32
	long  map[longPrefix]uint32
}

type longPrefix struct {
	key key
	len uint8
}

func newHidden() hidden {
	return hidden{map[uint64]uint32{}, map[longPrefix]uint32{}}
}

func (h hidden) get(k key, n int) (uint32, bool) {
	if n <= 56 {
		v, ok := h.short[k.hi|uint64(n)]
		return v, ok
	}
	v, ok := h.long[longPrefix{k, uint8(n)}]
	return v, ok
}

func (h hidden) set(k key, n int, value uint32) {
	if n <= 56 {
		h.short[k.hi|uint64(n)] = value
		return
	}
	h.long[longPrefix{k, uint8(n)}] = value
}

func (h hidden) remove(k key, n int) {
	if n <= 56 {
		delete(h.short, k.hi|uint64(n))
		return
	}
	delete(h.long, longPrefix{k, uint8(n)})
}

func (h hidden) len() int { return len(h.short) + len(h.long) }
