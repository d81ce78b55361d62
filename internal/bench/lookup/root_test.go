package lookup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"weft/fib"
	"weft/fib/internet"
	"weft/internal/bench"
	"weft/internal/bench/benchtest"
	"weft/internal/datapath"
	"weft/internal/lab/netspace"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("benches need root")
	}
}

// The figures are not checked here; that all subjects find the same next hops on
// every boundary address is.
func TestEverySubjectAgreesAndCanBeMeasured(t *testing.T) {
	needRoot(t)
	rng := rand.New(rand.NewPCG(1, 1))
	table := internet.Generate(rng, 100)
	m, err := Open(t.Context(), Options{Seed: 1}, table)
	if err != nil {
		t.Fatal(err)
	}
	n, err := m.Agree(t.Context())
	if want := 3 * (len(table.IPv4) + len(table.IPv6)); err != nil || n < want {
		t.Errorf("%d addresses compared, want %d at least: %v", n, want, err)
	}
	// what a small table takes of the kernel's memory is less than it tells
	each := []string{ // kind of case
		lookupCase(4, inTable), lookupCase(6, zipf), memory, build, update, worst, hostsMemory, pps64, pps64v6,
		growthPrefix + sizes[1].name, bytesPrefix + sizes[1].name,
	}
	benchtest.Once(t, Bench(), m, bench.Options{Cases: each}, memory+" "+kernel)
}

func TestAnInterruptedOpeningLeavesNothing(t *testing.T) {
	needRoot(t)
	ctx, stop := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupted")
	// Progress is called for the kernel's table before it is loaded.
	o := Options{Seed: 1, Progress: func(string) { stop(interrupt) }}
	m, err := Open(ctx, o, internet.Generate(rand.New(rand.NewPCG(1, 1)), 100))
	if err == nil {
		t.Error("it was opened", m.Close(t.Context()))
	}
	names, err := netspace.List(fmt.Sprintf("bench-%d-", os.Getpid()))
	if err != nil || len(names) > 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// nearby is a prefix that others lie near to.
func nearby(rng *rand.Rand, family int) netip.Prefix {
	b := make([]byte, map[int]int{4: 4, 6: 16}[family])
	b[0] = 0x20
	for range 3 {
		bit := rng.IntN(8*len(b)-4) + 4
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, 13+rng.IntN(8*len(b)-12)).Masked()
}

// flap is a prefix that comes and goes beside those that stay.
type flap struct {
	prefix netip.Prefix
	value  uint32
	there  bool
}

// churn is a table of which a part changes while eBPF programs read it.
type churn struct {
	table   *fib.Table
	flaps   []flap
	addrs   []netip.Addr
	allowed []map[uint32]bool // for each address: what may be answered
}

func newChurn(t *testing.T, rng *rand.Rand, table *fib.Table, family int) *churn {
	t.Helper()
	table.Poison()
	c := &churn{table: table}
	stay := map[netip.Prefix]uint32{}
	var all []netip.Prefix
	for i := range uint32(400) {
		p := nearby(rng, family)
		if slices.Contains(all, p) {
			continue
		}
		all = append(all, p)
		if i&1 == 0 {
			c.flaps = append(c.flaps, flap{prefix: p, value: 1000 + i})
			continue
		}
		stay[p] = 1 + i
		if err := table.Insert(p, 1+i); err != nil {
			t.Fatal(err)
		}
	}
	for a := range boundaries(all) {
		c.addrs = append(c.addrs, a)
		c.allowed = append(c.allowed, c.answersFor(a, stay))
	}
	return c
}

// answersFor has the longest prefix that stays, and all longer that flap.
func (c *churn) answersFor(a netip.Addr, stay map[netip.Prefix]uint32) map[uint32]bool {
	bits, value := -1, uint32(0)
	for p, v := range stay {
		if p.Contains(a) && p.Bits() > bits {
			bits, value = p.Bits(), v
		}
	}
	allowed := map[uint32]bool{value: true}
	for _, f := range c.flaps {
		if f.prefix.Contains(a) && f.prefix.Bits() > bits {
			allowed[f.value] = true
		}
	}
	return allowed
}

// update changes some prefixes, and makes what they freed fit for use once
// no program can still be reading it.
func (c *churn) update(rng *rand.Rand, n int) error {
	for range n {
		f := &c.flaps[rng.IntN(len(c.flaps))]
		var err error
		if f.there {
			_, err = c.table.Delete(f.prefix)
		} else {
			err = c.table.Insert(f.prefix, f.value)
		}
		if err != nil {
			return err
		}
		f.there = !f.there
	}
	mark := c.table.Seal()
	if err := datapath.Grace(); err != nil {
		return err
	}
	c.table.Release(mark)
	return nil
}

func TestProgramsSeeNoWrongRouteWhileATableChanges(t *testing.T) {
	needRoot(t)
	for _, family := range families {
		t.Run(map[int]string{4: "IPv4", 6: "IPv6"}[family], func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, uint64(family)))
			p, err := load(addresses, 1, true)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			// Little room, so that what is freed is soon in use again.
			create, least := fib.New4, fib.MinWords4
			if family == 6 {
				create, least = fib.New6, fib.MinWords6
			}
			table, err := create(p.fib[family].Words[:least+40_000])
			if err != nil {
				t.Fatal(err)
			}
			c := newChurn(t, rng, table, family)
			list := repeat(c.addrs)
			p.aim(family, list)
			runs, done := read(t, p, family, c)
			for i := 0; (i < 150 || runs.Load() < 30) && !t.Failed(); i++ {
				if err := c.update(rng, 200); err != nil {
					t.Error(err)
				}
			}
			done()
		})
	}
}

// repeat repeats addresses to a full list.
func repeat(addrs []netip.Addr) []netip.Addr {
	list := make([]netip.Addr, addresses)
	for i := range list {
		list[i] = addrs[i%len(addrs)]
	}
	return list
}

// read runs the program all the time and checks every answer, until the
// returned function is called.
func read(t *testing.T, p *programs, family int, c *churn) (runs *atomic.Int64, stop func()) {
	t.Helper()
	runs = new(atomic.Int64)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				t.Logf("%d lookups", runs.Load()*addresses)
				return
			default:
			}
			if _, err := p.run(weft, family); err != nil {
				t.Error(err)
				return
			}
			for i, got := range p.answers(addresses) {
				if !c.allowed[i%len(c.allowed)][got] {
					t.Errorf("next hop for %s is %d, allowed are %v", c.addrs[i%len(c.addrs)], got, c.allowed[i%len(c.allowed)])
					return
				}
			}
			runs.Add(1)
		}
	}()
	return runs, func() { close(quit); <-ended }
}
