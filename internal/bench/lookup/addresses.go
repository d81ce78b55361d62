package lookup

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"net/netip"
)

// hops is how many next hops the routes have; a route's value is its hop's
// number, from 1.
const hops = 1000

// exponent of Zipf's law for skewed destinations.
const exponent = 1.1

// addresses is the size of a list of destinations, ADDRESSES in lookup.bpf.c.
const addresses = 1 << 20

// routes assigns each prefix a next hop at random, always the same.
func routes(prefixes []netip.Prefix, seed uint64) iter.Seq2[netip.Prefix, uint32] {
	return func(yield func(netip.Prefix, uint32) bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, p := range prefixes {
			if !yield(p, 1+rng.Uint32N(hops)) {
				return
			}
		}
	}
}

// draw makes a list of destinations.
func draw(rng *rand.Rand, prefixes []netip.Prefix, s spread) []netip.Addr {
	out := make([]netip.Addr, addresses)
	order := rng.Perm(len(prefixes))
	skewed := rand.NewZipf(rng, exponent, 1, uint64(len(prefixes)-1))
	for i := range out {
		switch s {
		case uniform:
			out[i] = anywhere(rng, prefixes[0])
		case inTable:
			out[i] = within(rng, prefixes[rng.IntN(len(prefixes))])
		case zipf:
			out[i] = within(rng, prefixes[order[skewed.Uint64()]])
		}
	}
	return out
}

// anywhere is an address of the family of like.
func anywhere(rng *rand.Rand, like netip.Prefix) netip.Addr {
	if like.Addr().Is4() {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], rng.Uint32())
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rng.Uint64()>>3|1<<61)
	binary.BigEndian.PutUint64(b[8:], rng.Uint64())
	return netip.AddrFrom16(b)
}

func within(rng *rand.Rand, p netip.Prefix) netip.Addr {
	a := p.Addr().AsSlice()
	for i := range a {
		host := min(max(8*(i+1)-p.Bits(), 0), 8) // bits of this octet that are the host's
		a[i] |= byte(rng.Uint32()) & byte(1<<host-1)
	}
	out, _ := netip.AddrFromSlice(a)
	return out
}

// boundaries are the addresses at which answers change: each prefix's first
// and last, and those right outside.
func boundaries(prefixes []netip.Prefix) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, p := range prefixes {
			last := lastOf(p)
			for _, a := range []netip.Addr{p.Addr().Prev(), p.Addr(), last, last.Next()} {
				if a.IsValid() && !yield(a) {
					return
				}
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().AsSlice()
	for i := range a {
		host := min(max(8*(i+1)-p.Bits(), 0), 8)
		a[i] |= byte(1<<host - 1)
	}
	out, _ := netip.AddrFromSlice(a)
	return out
}
