package route

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
)

// rib is what one of the kernel's tables holds (the main one together with the
// local one): for each prefix the routes to it, in the kernel's order. Nearly
// all have one only, so that one stands in the map itself.
type rib struct {
	four rows[key4]
	six  rows[key6]
	// broad are the local table's prefixes of more than one address
	broad []netip.Prefix
	// lengths counts prefixes by family and length: what a search must try
	lengths [2][129]int
}

// key4 is an IPv4 prefix: the address in the upper bits, the length below.
type key4 uint64

// key6 is an IPv6 prefix.
type key6 struct {
	hi, lo uint64
	bits   uint8
}

type rows[K comparable] struct {
	first map[K]candidate
	more  map[K][]candidate // all of a prefix's, where there are several
}

// candidate is one route to a prefix.
type candidate struct {
	metric uint32
	path   number // flags among its upper bits
}

// number is that of a next hop, as the tables of package fib hold it.
type number uint32

// Flags of candidate.path.
const (
	ofLocal    number = 1 << 31 // from the table local, which comes first
	ofTOS      number = 1 << 30 // for one TOS only
	severalFor number = 1 << 29 // in rows.first: look into rows.more
	pathBits   number = 1<<29 - 1
)

func (c candidate) number() number { return c.path & pathBits }
func (c candidate) local() bool    { return c.path&ofLocal != 0 }
func (c candidate) tos() bool      { return c.path&ofTOS != 0 }

// same reports whether two candidates stand for the same route.
func (c candidate) same(d candidate) bool {
	return c.metric == d.metric && c.path&^severalFor == d.path&^severalFor
}

// before reports whether the kernel prefers c, whatever came first.
func (c candidate) before(d candidate) bool {
	if c.local() != d.local() {
		return c.local()
	}
	return c.metric < d.metric
}

// rivals reports whether only the kernel knows which of the two it takes.
func (c candidate) rivals(d candidate) bool { return !c.before(d) && !d.before(c) }

func newRib() *rib {
	return &rib{
		four: rows[key4]{map[key4]candidate{}, map[key4][]candidate{}},
		six:  rows[key6]{map[key6]candidate{}, map[key6][]candidate{}},
	}
}

func key4Of(p netip.Prefix) key4 {
	a := p.Addr().As4()
	return key4(binary.BigEndian.Uint32(a[:]))<<8 | key4(p.Bits())
}

func (k key4) prefix() netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(k>>8))
	return netip.PrefixFrom(netip.AddrFrom4(a), int(k&0xff))
}

func key6Of(p netip.Prefix) key6 {
	a := p.Addr().As16()
	return key6{binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(a[8:]), uint8(p.Bits())}
}

func (k key6) prefix() netip.Prefix {
	var a [16]byte
	binary.BigEndian.PutUint64(a[:], k.hi)
	binary.BigEndian.PutUint64(a[8:], k.lo)
	return netip.PrefixFrom(netip.AddrFrom16(a), int(k.bits))
}

// list returns the candidates of a key, the best first. It uses room where it can.
func (r *rows[K]) list(k K, room *[1]candidate) []candidate {
	c, ok := r.first[k]
	switch {
	case !ok:
		return nil
	case c.path&severalFor != 0:
		return r.more[k]
	}
	room[0] = c
	return room[:]
}

// set replaces the candidates of a key, the best first.
func (r *rows[K]) set(k K, list []candidate) {
	if len(list) == 0 {
		delete(r.first, k)
		delete(r.more, k)
		return
	}
	first := list[0]
	if len(list) > 1 {
		first.path |= severalFor
		r.more[k] = slices.Clone(list)
	} else if old, ok := r.first[k]; ok && old.path&severalFor != 0 {
		delete(r.more, k)
	}
	r.first[k] = first
}

// candidates returns the routes to exactly this prefix, the best first. They are
// good until the next change.
func (b *rib) candidates(p netip.Prefix, room *[1]candidate) []candidate {
	if p.Addr().Is4() {
		return b.four.list(key4Of(p), room)
	}
	return b.six.list(key6Of(p), room)
}

// set replaces the routes to a prefix, the best first.
func (b *rib) set(p netip.Prefix, list []candidate) {
	had := b.Len()
	if p.Addr().Is4() {
		b.four.set(key4Of(p), list)
	} else {
		b.six.set(key6Of(p), list)
	}
	b.lengths[familyOf(p.Addr())][p.Bits()] += b.Len() - had
}

// Len is how many prefixes there are.
func (b *rib) Len() int { return len(b.four.first) + len(b.six.first) }

// all returns every prefix with its candidates.
func (b *rib) all() iter.Seq2[netip.Prefix, []candidate] {
	return func(yield func(netip.Prefix, []candidate) bool) {
		for f := range family(2) {
			for p, list := range b.family(f) {
				if !yield(p, list) {
					return
				}
			}
		}
	}
}

// family returns every prefix of a family with its candidates.
func (b *rib) family(f family) iter.Seq2[netip.Prefix, []candidate] {
	if f == ipv4 {
		return each(&b.four, key4.prefix)
	}
	return each(&b.six, key6.prefix)
}

func each[K comparable](r *rows[K], prefix func(K) netip.Prefix) iter.Seq2[netip.Prefix, []candidate] {
	return func(yield func(netip.Prefix, []candidate) bool) {
		var room [1]candidate
		for k := range r.first {
			if !yield(prefix(k), r.list(k, &room)) {
				return
			}
		}
	}
}

// longest returns the longest prefix that holds an address, and its candidates.
func (b *rib) longest(a netip.Addr, room *[1]candidate) (netip.Prefix, []candidate) {
	lengths := &b.lengths[familyOf(a)]
	for bits := a.BitLen(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		p := netip.PrefixFrom(a, bits).Masked()
		if list := b.candidates(p, room); list != nil {
			return p, list
		}
	}
	return netip.Prefix{}, nil
}

// family tells the two apart: 0 is IPv4, 1 is IPv6.
type family int

const (
	ipv4 family = iota
	ipv6
)

func (f family) String() string {
	if f == ipv4 {
		return "IPv4"
	}
	return "IPv6"
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

// insert puts a candidate where the kernel would: among those of the same rank
// first or last.
func insert(list []candidate, c candidate, last bool) []candidate {
	at := 0
	for at < len(list) && (list[at].before(c) || last && list[at].rivals(c)) {
		at++
	}
	return slices.Insert(slices.Clip(list), at, c)
}
