package fib

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gaissmai/bart"
)

// fullWords is an arena that holds the full table and some updates, also the
// made up one, which spreads its prefixes wider than the real one.
const fullWords = 8 << 20

// values assigns each prefix a next hop out of n, at random.
func values(prefixes []netip.Prefix, n int) iter.Seq2[netip.Prefix, uint32] {
	return func(yield func(netip.Prefix, uint32) bool) {
		rng := rand.New(rand.NewPCG(3, uint64(n)))
		for _, p := range prefixes {
			if !yield(p, 1+rng.Uint32N(uint32(n))) {
				return
			}
		}
	}
}

func buildBoth(t testing.TB, f family, prefixes []netip.Prefix) (*Table, *bart.Table[uint32]) {
	t.Helper()
	table := newTestTable(t, f, fullWords)
	if err := table.Build(values(prefixes, 1000)); err != nil {
		t.Fatal(err)
	}
	other := new(bart.Table[uint32])
	for p, v := range values(prefixes, 1000) {
		other.Insert(p, v)
	}
	return table, other
}

// agree compares every boundary address and as many random ones.
func agree(t *testing.T, table *Table, other *bart.Table[uint32], prefixes []netip.Prefix) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	check := func(a netip.Addr) {
		want, _ := other.Lookup(a)
		if got, _ := table.Lookup(a); got != want {
			t.Fatalf("lookup of %s is %d, bart says %d", a, got, want)
		}
	}
	n := 0
	for _, p := range prefixes {
		for _, a := range boundaries(p) {
			check(a)
			n++
		}
		check(randomAddr(rng, table.family))
		k := keyOf(p.Addr())
		r := key{rng.Uint64(), rng.Uint64()}
		inside := key{k.hi | r.hi&^key{^uint64(0), 0}.first(p.Bits()).hi, r.lo}
		if p.Bits() > 64 {
			inside = k
		}
		check(inside.addr(table.family))
		n += 2
	}
	t.Logf("%d addresses agree", n)
}

func TestTheFullTableAgreesWithBart(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		prefixes := fullTable(t, f)
		table, other := buildBoth(t, f, prefixes)
		agree(t, table, other, prefixes)
		if f == ipv6 {
			checkIndex(t, table)
		}
		t.Logf("\n%s", table.Stats())

		rng := rand.New(rand.NewPCG(5, 5))
		for i := range 100_000 {
			p := prefixes[rng.IntN(len(prefixes))]
			switch rng.IntN(3) {
			case 0:
				p = netip.PrefixFrom(p.Addr(), p.Bits()+rng.IntN(f.width()-p.Bits()+1)).Masked()
				fallthrough
			case 1:
				v := 1 + rng.Uint32N(1000)
				insert(t, table, p, v)
				other.Insert(p, v)
			case 2:
				found := remove(t, table, p)
				if _, want := other.Get(p); found != want {
					t.Fatalf("delete %s: found is %v, want %v", p, found, want)
				}
				other.Delete(p)
			}
			if i%1000 == 0 {
				table.Release(table.Seal())
			}
		}
		agree(t, table, other, prefixes)
		if f == ipv6 {
			checkIndex(t, table)
		}
		if table.Len() != other.Size() {
			t.Errorf("the table has %d prefixes, bart %d", table.Len(), other.Size())
		}
	}
}

func TestMemoryOfTheFullTable(t *testing.T) {
	if _, note := realTable(); note != realNote {
		t.Skip("the real full table is not beside this checkout")
	}
	bytes := 0
	for _, f := range []family{ipv4, ipv6} {
		table, _ := buildBoth(t, f, fullTable(t, f))
		s := table.Stats()
		t.Logf("IPv%d: %d bytes, %.1f a prefix, %d of them beside the arena", f, s.Bytes(), float64(s.Bytes())/float64(s.Prefixes), s.Shadow)
		bytes += s.Bytes()
	}
	if bytes >= 20<<20 {
		t.Errorf("the full tables need %d bytes, want less than 20 MiB", bytes)
	}
}

func TestMemoryOfHostRoutes(t *testing.T) {
	full := fullTable(t, ipv6)
	places := map[string]func(*rand.Rand) key{
		"anywhere under 2000::/3":          func(r *rand.Rand) key { return key{r.Uint64()>>3 | 1<<61, r.Uint64()} },
		"in one /64":                       func(r *rand.Rand) key { return key{0x2001_0db8_0000_0001, r.Uint64()} },
		"in one /48, ::1 of each /64":      func(r *rand.Rand) key { return key{0x2001_0db8_0001_0000 | r.Uint64()>>44, 1} },
		"in one unique local /48":          func(r *rand.Rand) key { return key{0xfd00_0db8_0001_0000 | r.Uint64()>>48, r.Uint64()} },
		"in pairs that differ in the last": func(r *rand.Rand) key { return key{0x2001_0db8_0000_0001, r.Uint64() &^ 3 << 2} },
		"inside of the table's prefixes": func(r *rand.Rand) key {
			return key{keyOf(full[r.IntN(len(full))].Addr()).hi | r.Uint64()>>48, r.Uint64()}
		},
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 6))
			table := newTestTable(t, ipv6, 8<<20)
			if err := table.Build(values(full, 1000)); err != nil {
				t.Fatal(err)
			}
			before := table.Stats().Bytes()
			for i := range 100_000 {
				k := place(rng)
				if name == "in pairs that differ in the last" && i&1 == 1 {
					k.lo |= 1
				}
				insert(t, table, netip.PrefixFrom(k.addr(ipv6), 128), 1+rng.Uint32N(1000))
				if i%1000 == 0 {
					table.Release(table.Seal())
				}
			}
			table.Release(table.Seal())
			s := table.Stats()
			added := s.Bytes() - before
			t.Logf("%d bytes in use, %d with what is free for reuse", 4*s.Used+s.Shadow-before, added)
			if added >= 10<<20 {
				t.Errorf("100,000 host routes add %d bytes, want less than 10 MiB", added)
			}
		})
	}
}
