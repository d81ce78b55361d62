package lookup

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/gaissmai/bart"

	"weft/fib"
)

// sizes are those of the tables whose growth is measured.
var sizes = [...]size{{"1k", 1_000}, {"10k", 10_000}, {"100k", 100_000}, {"1m", 1_000_000}}

type size struct {
	name     string
	prefixes int
}

// grown has the tables of one size, each filled when it is first asked for.
type grown struct {
	p        *programs
	prefixes []netip.Prefix
	addrs    []netip.Addr
	weft     *fib.Table
	trie     bool // filled
	bart     *bart.Table[uint32]
}

func (m *Measurer) grownTo(s size) (*grown, error) {
	if g := m.grown[s.name]; g != nil {
		return g, nil
	}
	p, err := load(addresses, 1, false)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(m.o.Seed, uint64(s.prefixes)))
	n := s.prefixes
	if m.o.Quick {
		n /= 10
	}
	g := &grown{p: p, prefixes: sample(rng, m.prefixes[4], n)}
	g.addrs = draw(rng, g.prefixes, inTable)
	m.grown[s.name] = g
	return g, nil
}

// sample takes some of the prefixes, evenly; if there are not enough it adds
// /24s inside of them, as many as it soon finds.
func sample(rng *rand.Rand, prefixes []netip.Prefix, n int) []netip.Prefix {
	var out []netip.Prefix
	for i := range min(n, len(prefixes)) {
		out = append(out, prefixes[i*len(prefixes)/min(n, len(prefixes))])
	}
	seen := map[netip.Prefix]bool{}
	for _, p := range out {
		seen[p] = true
	}
	for tries := 0; len(out) < n && tries < 20*n; tries++ {
		p := prefixes[rng.IntN(len(prefixes))]
		if p.Bits() >= 24 {
			continue
		}
		p = netip.PrefixFrom(within(rng, p), 24).Masked()
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// lookupsAt returns ns per in-table lookup in a table of the size.
func (m *Measurer) lookupsAt(subject string, s size) (float64, error) {
	g, err := m.grownTo(s)
	if err != nil {
		return 0, err
	}
	if err := g.fill(subject, m.o.Seed); err != nil {
		return 0, err
	}
	if subject == bartGo {
		return lookupsInGo(g.bart, g.addrs), nil
	}
	return m.timed(g.p, subject, 4, g.addrs)
}

// bytesAt returns bytes a prefix.
func (m *Measurer) bytesAt(subject string, s size) (float64, error) {
	g, err := m.grownTo(s)
	if err != nil {
		return 0, err
	}
	if err := g.fill(subject, m.o.Seed); err != nil {
		return 0, err
	}
	if subject == weft {
		return float64(g.weft.Stats().Bytes()) / float64(len(g.prefixes)), nil
	}
	bytes, err := g.p.trieBytes(4)
	return float64(bytes) / float64(len(g.prefixes)), err
}

func (g *grown) fill(subject string, seed uint64) (err error) {
	switch {
	case subject == weft && g.weft == nil:
		if g.weft, err = fib.New4(g.p.fib[4].Words); err == nil {
			err = g.weft.Build(routes(g.prefixes, seed))
		}
	case subject == lpmTrie && !g.trie:
		g.trie = true
		err = fillTrie(g.p.trie(4), g.prefixes, seed)
	case subject == bartGo && g.bart == nil:
		g.bart = new(bart.Table[uint32])
		for p, hop := range routes(g.prefixes, seed) {
			g.bart.Insert(p, hop)
		}
	}
	return err
}

// hosts is weft's IPv6 table with many host routes beside its prefixes.
type hosts struct {
	p     *programs
	added float64 // bytes
}

const hostRoutes = 100_000

func (m *Measurer) hosts() (*hosts, error) {
	if m.withHosts != nil {
		return m.withHosts, nil
	}
	p, err := load(addresses, 1, false)
	if err != nil {
		return nil, err
	}
	m.withHosts = &hosts{p: p}
	tables, err := p.build(m.prefixes, m.o.Seed)
	if err != nil {
		return nil, err
	}
	t := tables[6]
	before := t.Stats().Bytes()
	rng := rand.New(rand.NewPCG(m.o.Seed, 6))
	for i := range hostRoutes {
		if err := t.Insert(randomHost(rng, m.prefixes[6]), 1+rng.Uint32N(hops)); err != nil {
			return nil, err
		}
		if i%1000 == 0 {
			t.Release(t.Seal()) // no reader yet
		}
	}
	t.Release(t.Seal())
	m.withHosts.added = float64(t.Stats().Bytes() - before)
	return m.withHosts, nil
}

// randomHost is an address in one of the table's /48s or shorter, whose last
// 80 bits are random.
func randomHost(rng *rand.Rand, prefixes []netip.Prefix) netip.Prefix {
	for {
		p := prefixes[rng.IntN(len(prefixes))]
		if p.Bits() > 48 {
			continue
		}
		b := within(rng, p).As16()
		binary.BigEndian.PutUint64(b[8:], rng.Uint64())
		return netip.PrefixFrom(netip.AddrFrom16(b), 128)
	}
}
