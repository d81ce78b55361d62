package fib

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// epoch is one reader's sign to the writer: odd while it looks things up.
type epoch struct{ n atomic.Uint64 }

// grace returns when every lookup that ran at its call has ended.
func grace(readers []*epoch) {
	for _, r := range readers {
		for was := r.n.Load(); was&1 == 1 && r.n.Load() == was; {
			runtime.Gosched()
		}
	}
}

// flap is a prefix that comes and goes beside those that stay.
type flap struct {
	prefix netip.Prefix
	value  uint32
}

// probe is an address and the answers it may get: that of the longest prefix
// that stays, and of longer ones that flap.
type probe struct {
	addr    netip.Addr
	allowed map[uint32]bool
}

func TestReadersNeverSeeAWrongAnswer(t *testing.T) {
	for _, f := range []family{ipv4, ipv6} {
		t.Run(fmt.Sprint("IPv", int(f)), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, uint64(f)))
			table := newTestTable(t, f, 1<<22)
			stay, flaps := naive{}, []flap{}
			for i := range uint32(300) {
				p := randomPrefix(rng, f)
				if _, ok := stay[p]; !ok && p.Bits() > 2 {
					stay[p] = 1 + i
					insert(t, table, p, 1+i)
				}
			}
			for i := range uint32(300) {
				p := randomPrefix(rng, f)
				if _, ok := stay[p]; !ok && (f == ipv4 || p.Bits() > 12 || p.Bits() < 4) {
					flaps = append(flaps, flap{p, 1000 + i})
				}
			}
			probes := makeProbes(rng, f, stay, flaps)
			readWhile(t, table, probes, func(readers []*epoch) {
				on := make([]bool, len(flaps))
				for i := range 30_000 {
					n := rng.IntN(len(flaps))
					if on[n] {
						remove(t, table, flaps[n].prefix)
					} else {
						insert(t, table, flaps[n].prefix, flaps[n].value)
					}
					on[n] = !on[n]
					if i%16 == 0 {
						mark := table.Seal()
						grace(readers)
						table.Release(mark)
					}
				}
			})
		})
	}
}

func makeProbes(rng *rand.Rand, f family, stay naive, flaps []flap) []probe {
	var addrs []netip.Addr
	for p := range stay {
		addrs = append(addrs, boundaries(p)...)
	}
	for _, fl := range flaps {
		addrs = append(addrs, boundaries(fl.prefix)...)
	}
	for range 500 {
		addrs = append(addrs, randomAddr(rng, f))
	}
	var probes []probe
	for _, a := range addrs {
		p, v := stay.lookup(a)
		allowed := map[uint32]bool{v: true}
		for _, fl := range flaps {
			if fl.prefix.Contains(a) && (!p.IsValid() || fl.prefix.Bits() > p.Bits()) {
				allowed[fl.value] = true
			}
		}
		probes = append(probes, probe{a, allowed})
	}
	return probes
}

// readWhile looks the probes up, over and over, for as long as update runs.
func readWhile(t *testing.T, table *Table, probes []probe, update func([]*epoch)) {
	t.Helper()
	var readers []*epoch
	var tasks sync.WaitGroup
	var lookups atomic.Uint64
	stop := make(chan struct{})
	for range 2 {
		mine := new(epoch)
		readers = append(readers, mine)
		tasks.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				mine.n.Add(1)
				for range 32 {
					p := probes[i%len(probes)]
					if got, _ := table.Lookup(p.addr); !p.allowed[got] {
						t.Errorf("lookup of %s is %d, allowed are %v", p.addr, got, p.allowed)
					}
					i += 7
				}
				mine.n.Add(1)
				lookups.Add(32)
				runtime.Gosched() // let the writer in, on few cores
			}
		})
	}
	update(readers)
	close(stop)
	tasks.Wait()
	t.Logf("%d lookups", lookups.Load())
}
