package nat64table

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"weft/internal/datapath"
	"weft/internal/state"
)

// BenchmarkStateful measures what one packet costs in the kernel, clock reads
// included (some 50 ns): of a new session with a new binding, of a session that
// is there, with few and with many others, and of a stateless translation.
//
//	go test ./internal/datapath -run xxx -bench Stateful -benchtime 1x
func BenchmarkStateful(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for b.Loop() {
		benchStateful(b)
	}
}

func benchStateful(b *testing.B) {
	d := bareDatapath(b, state.Tables{Bindings: 262144, Sessions: 1 << 20})
	defer d.Close()
	r, err := Of(d).Resolver()
	if err != nil {
		b.Fatal(err)
	}
	report := func(what string, times []time.Duration) {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2]), what+"-median-ns")
		var all time.Duration
		for _, t := range times {
			all += t
		}
		b.ReportMetric(float64(all)/float64(len(times)), what+"-mean-ns")
	}
	run := func(n int, tuple func(i int) state.Tuple) []time.Duration {
		times := make([]time.Duration, n)
		for i := range times {
			outcome, took, err := r.program.Benchmark(probe(tuple(i)), 1, nil)
			if err != nil || outcome != 0 {
				b.Fatalf("packet %d: %s %v", i, state.Outcome(outcome), err)
			}
			times[i] = took
		}
		return times
	}
	far := netip.MustParseAddrPort("[64:ff9b:1::8.8.8.8]:443")
	client := func(i int) netip.AddrPort {
		a := netip.MustParseAddr("2001:db8:3::").As16()
		binary.BigEndian.PutUint16(a[6:], uint16(i>>8))
		a[15] = byte(i)
		return netip.AddrPortFrom(netip.AddrFrom16(a), 4000)
	}
	open := func(i int) state.Tuple {
		return state.Tuple{Protocol: 17, From: client(i % 250_000), To: nth(far, i/250_000)}
	}
	stateless := state.Tuple{Protocol: 6, From: netip.MustParseAddrPort("[2001:db8:7::7]:4000"), To: netip.MustParseAddrPort("[64:ff9b:2::8.8.8.8]:443"), Flags: 16}
	run(1, open)
	report("one-of-1", run(20_000, func(int) state.Tuple { return open(0) }))
	report("stateless", run(20_000, func(int) state.Tuple { return stateless }))
	report("new-binding", run(250_000, func(i int) state.Tuple { return open(i) })[1:])
	report("new-session", run(750_000, func(i int) state.Tuple { return open(250_000 + i) }))
	report("one-of-1M", run(20_000, func(int) state.Tuple { return open(0) }))
	report("any-of-1M", run(100_000, func(i int) state.Tuple { return open(i * 7919 % 1_000_000) }))
	report("any-of-1M-tcp", run(100_000, func(i int) state.Tuple { return open(i * 7919 % 1_000_000) }))
	start := time.Now()
	if err := Of(d).Sweep(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(start).Microseconds()), "sweep-of-1M-us")
	var bytes uint64
	for _, name := range stateMaps() {
		m, err := d.Map(name)
		if err != nil {
			b.Fatal(err)
		}
		if info, err := m.Info(); err == nil {
			if mem, ok := info.Memlock(); ok {
				b.Logf("%-20s %4d MiB", name, mem>>20)
				bytes += mem
			}
		}
	}
	b.ReportMetric(float64(bytes>>20), "tables-MiB")
	b.ReportMetric(0, "ns/op")
}

func nth(a netip.AddrPort, n int) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), a.Port()+uint16(n))
}

// bareDatapath has tables that are pinned nowhere, a stateful translator and a
// stateless one.
func bareDatapath(b *testing.B, tables state.Tables) *datapath.Datapath {
	b.Helper()
	d, err := datapath.Unpinned(datapath.Options{Tables: tables, UnlimitedSlow: true, Parts: parts()})
	if err != nil {
		b.Fatal(err)
	}
	prefix, second := netip.MustParsePrefix("64:ff9b:1::/96"), netip.MustParsePrefix("64:ff9b:2::/96")
	all, pool := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.0/28")
	allocator := state.Allocator{ID: 0, UDP: 300e9, ICMP: 60e9, Established: 7440e9, Transitory: 240e9, SubscriberBits: 64}
	allocator.Pools[0] = state.Pool{Prefix: pool, Low: 1024, High: 65535}
	for _, o := range []state.Object{
		allocator,
		state.Translator{ID: 0, Name: "many", Device: "lo", Prefix: prefix, LowestMTU: 1280, Stateful: true},
		state.Translator{ID: 1, Name: "each", Device: "lo", Prefix: second, LowestMTU: 1280},
		state.Rule{From: prefix, To: all, Kind: state.RulePrefix},
		state.Rule{From: pool, To: prefix, Kind: state.RulePool},
		state.Rule{From: second, To: all, Kind: state.RulePrefix, Translator: 1},
		state.Rule{From: netip.MustParsePrefix("2001:db8:7::7/128"), To: netip.MustParsePrefix("203.0.113.7/32"), Kind: state.RuleMapping, Translator: 1},
	} {
		if err := d.Apply(b.Context(), state.Step{Op: state.Add, Object: o}); err != nil {
			b.Fatal(err)
		}
	}
	return d
}
