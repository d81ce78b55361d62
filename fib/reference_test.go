package fib

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"weft/fib/internet"
)

// naive is the table one would write first.
type naive map[netip.Prefix]uint32

// prefixes returns them in their order, which a history that repeats from its seed
// takes them in.
func (n naive) prefixes() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(n), comparePrefixes)
}

// from returns the first prefix that does not come before p, or the very first.
func (n naive) from(p netip.Prefix) (first netip.Prefix, found bool) {
	var lowest netip.Prefix
	for q := range n {
		if comparePrefixes(q, p) >= 0 && (!first.IsValid() || comparePrefixes(q, first) < 0) {
			first = q
		}
		if !lowest.IsValid() || comparePrefixes(q, lowest) < 0 {
			lowest = q
		}
	}
	if !first.IsValid() {
		first = lowest
	}
	return first, first.IsValid()
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func (n naive) lookup(a netip.Addr) (netip.Prefix, uint32) {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p := netip.PrefixFrom(a, bits).Masked()
		if v, ok := n[p]; ok {
			return p, v
		}
	}
	return netip.Prefix{}, 0
}

// boundaries are the addresses where the answer may change because of p: its
// first and last, and their neighbours outside.
func boundaries(p netip.Prefix) []netip.Addr {
	first := p.Masked().Addr()
	last := lastOf(p)
	out := []netip.Addr{first, last}
	if a := first.Prev(); a.IsValid() {
		out = append(out, a)
	}
	if a := last.Next(); a.IsValid() {
		out = append(out, a)
	}
	return out
}

func lastOf(p netip.Prefix) netip.Addr {
	k, n := keyOf(p.Addr()), p.Bits()
	if n < 64 {
		k.hi |= ^uint64(0) >> n
		k.lo = ^uint64(0)
	} else if n < 128 {
		k.lo |= ^uint64(0) >> (n - 64)
	}
	if p.Addr().Is4() {
		return k.addr(ipv4)
	}
	return k.addr(ipv6)
}

func randomAddr(rng *rand.Rand, f family) netip.Addr {
	k := key{rng.Uint64(), rng.Uint64()}
	if f == ipv6 && rng.IntN(4) > 0 {
		k.hi = k.hi>>3 | 1<<61
	}
	return k.addr(f)
}

func newTestTable(t testing.TB, f family, words int) *Table {
	t.Helper()
	make := map[family]func([]uint32) (*Table, error){ipv4: New4, ipv6: New6}[f]
	table, err := make(newWords(words))
	if err != nil {
		t.Fatal(err)
	}
	table.poison = true
	return table
}

func newWords(n int) []uint32 { return make([]uint32, n) }

var realTable = sync.OnceValues(func() (internet.Table, string) {
	path := filepath.Join("..", "..", "shared", "data", "internet-prefixes-2024-03.txt.gz")
	f, err := os.Open(path)
	if err != nil {
		rng := rand.New(rand.NewPCG(1, 2))
		return internet.Generate(rng, 1), "a made up table stands in for the real one: " + err.Error()
	}
	defer f.Close()
	table, err := internet.Read(f)
	if err != nil {
		panic(err)
	}
	return table, realNote
})

const realNote = "the full table of March 2024"

// fullTable is the real table's prefixes of a family, in order.
func fullTable(t testing.TB, f family) []netip.Prefix {
	t.Helper()
	table, note := realTable()
	t.Log(note)
	if f == ipv4 {
		return table.IPv4
	}
	return table.IPv6
}
