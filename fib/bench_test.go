package fib

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"
)

// destinations draws addresses inside of the table's prefixes.
func destinations(prefixes []netip.Prefix, n int) []netip.Addr {
	rng := rand.New(rand.NewPCG(7, 7))
	out := make([]netip.Addr, n)
	for i := range out {
		p := prefixes[rng.IntN(len(prefixes))]
		k, r := keyOf(p.Addr()), key{rng.Uint64(), rng.Uint64()}
		m := r.first(p.Bits())
		k = key{k.hi | r.hi ^ m.hi, k.lo | r.lo ^ m.lo}
		f := ipv6
		if p.Addr().Is4() {
			f = ipv4
		}
		out[i] = k.addr(f)
	}
	return out
}

func BenchmarkLookup(b *testing.B) {
	for _, f := range []family{ipv4, ipv6} {
		prefixes := fullTable(b, f)
		table, other := buildBoth(b, f, prefixes)
		addrs := destinations(prefixes, 1<<20)
		name := map[family]string{ipv4: "IPv4", ipv6: "IPv6"}[f]
		b.Run(name+"/weft", func(b *testing.B) {
			for i := range b.N {
				table.Lookup(addrs[i&(1<<20-1)])
			}
		})
		b.Run(name+"/bart", func(b *testing.B) {
			for i := range b.N {
				other.Lookup(addrs[i&(1<<20-1)])
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, f := range []family{ipv4, ipv6} {
		prefixes := fullTable(b, f)
		shuffled := slices.Clone(prefixes)
		rng := rand.New(rand.NewPCG(9, 9))
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for order, list := range map[string][]netip.Prefix{"sorted": prefixes, "shuffled": shuffled} {
			b.Run(map[family]string{ipv4: "IPv4/", ipv6: "IPv6/"}[f]+order, func(b *testing.B) {
				for range b.N {
					table := newTestTable(b, f, fullWords)
					if err := table.Build(values(list, 1000)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, f := range []family{ipv4, ipv6} {
		prefixes := fullTable(b, f)
		table, _ := buildBoth(b, f, prefixes)
		table.poison = false
		b.Run(map[family]string{ipv4: "IPv4", ipv6: "IPv6"}[f], func(b *testing.B) {
			rng := rand.New(rand.NewPCG(10, 10))
			for i := range b.N {
				p := prefixes[rng.IntN(len(prefixes))]
				if i&1 == 0 {
					remove(b, table, p)
				} else {
					insert(b, table, p, 1+rng.Uint32N(1000))
				}
				if i%1024 == 0 {
					table.Release(table.Seal())
				}
			}
		})
	}
}

// BenchmarkWorstUpdates announces and withdraws what touches the most slots.
func BenchmarkWorstUpdates(b *testing.B) {
	for _, text := range []string{"0.0.0.0/0", "0.0.0.0/1", "::/0", "2000::/3", "2000::/4", "2a00::/12"} {
		p := netip.MustParsePrefix(text)
		f := ipv6
		if p.Addr().Is4() {
			f = ipv4
		}
		table := newTestTable(b, f, fullWords)
		if err := table.Build(values(fullTable(b, f), 1000)); err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			for i := range b.N {
				if i&1 == 1 {
					remove(b, table, p)
				} else {
					insert(b, table, p, 7)
				}
				if i%1024 == 0 {
					table.Release(table.Seal())
				}
			}
		})
	}
}

func BenchmarkInsertOneByOne(b *testing.B) {
	prefixes := fullTable(b, ipv4)
	all := maps.Collect(values(prefixes, 1000))
	b.ResetTimer()
	for range b.N {
		table := newTestTable(b, ipv4, fullWords)
		i := 0
		for p, v := range all {
			insert(b, table, p, v)
			if i++; i%1024 == 0 {
				table.Release(table.Seal())
			}
		}
	}
}

func BenchmarkBartInsert(b *testing.B) {
	for _, f := range []family{ipv4, ipv6} {
		prefixes := fullTable(b, f)
		b.Run(map[family]string{ipv4: "IPv4", ipv6: "IPv6"}[f], func(b *testing.B) {
			for range b.N {
				other := new(bart.Table[uint32])
				for p, v := range values(prefixes, 1000) {
					other.Insert(p, v)
				}
			}
		})
	}
}
