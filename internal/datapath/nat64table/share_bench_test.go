package nat64table

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"weft/internal/state"
)

// BenchmarkShared measures the cost of replicating a million sessions: a new
// session's packet with events for other routers and without, the daemon's reading
// of them, a dump, and the import of all sessions.
//
//	go test ./internal/datapath -run xxx -bench Shared -benchtime 1x
func BenchmarkShared(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for b.Loop() {
		benchShared(b)
	}
}

func benchShared(b *testing.B) {
	d := bareDatapath(b, state.Tables{Bindings: 262144, Sessions: 1 << 20})
	defer d.Close()
	r, err := Of(d).Resolver()
	if err != nil {
		b.Fatal(err)
	}
	s, err := Of(d).Sharer()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	far := netip.MustParseAddrPort("[64:ff9b:1::8.8.8.8]:443")
	client := func(i int) netip.AddrPort {
		a := netip.MustParseAddr("2001:db8:3::").As16()
		binary.BigEndian.PutUint16(a[6:], uint16(i>>8))
		a[15] = byte(i)
		return netip.AddrPortFrom(netip.AddrFrom16(a), 4000)
	}
	const nodes, rounds = 100_000, 5
	next := 0
	var read time.Duration
	notified := 0
	open := func(what string) {
		times := make([]time.Duration, 0, nodes)
		for i := range nodes {
			outcome, took, err := r.program.Benchmark(probe(state.Tuple{Protocol: 6, From: client(i), To: nth(far, next), Flags: 2}), 1, nil)
			if err != nil || outcome != 0 {
				b.Fatalf("packet %d: %s %v", i, state.Outcome(outcome), err)
			}
			times = append(times, took)
			if i%4096 == 0 || i == nodes-1 {
				start := time.Now()
				n, err := s.Changes(1<<20, func(state.SessionChange) {})
				if err != nil {
					b.Fatal(err)
				}
				notified, read = notified+n, read+time.Since(start)
			}
		}
		next++
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2]), what+"-median-ns")
	}
	open("first") // with its binding
	open("new-session")
	allocators, err := Of(d).Allocators()
	if err != nil {
		b.Fatal(err)
	}
	allocators[0].Shared = true
	if err := d.Apply(b.Context(), state.Step{Op: state.Add, Object: allocators[0]}); err != nil {
		b.Fatal(err)
	}
	notified, read = 0, 0
	for range rounds {
		open("new-session-shared")
	}
	lost, err := s.Lost()
	if err != nil || lost != 0 || notified != rounds*nodes {
		b.Fatalf("%d events, lost %d, %v", notified, lost, err)
	}
	b.ReportMetric(float64(read)/float64(notified), "read-ns-each")

	var all []state.Import
	start := time.Now()
	for l := s.List(); ; {
		more, err := l.Next(func(e state.ListedSession) { all = append(all, state.Import{Shared: e.Shared, Want: state.ImportPut}) })
		if err != nil {
			b.Fatal(err)
		}
		if !more {
			break
		}
	}
	b.ReportMetric(float64(time.Since(start))/float64(len(all)), "list-ns-each")

	fresh := bareDatapath(b, state.Tables{Bindings: 262144, Sessions: 1 << 20})
	defer fresh.Close()
	if err := fresh.Apply(b.Context(), state.Step{Op: state.Add, Object: allocators[0]}); err != nil {
		b.Fatal(err)
	}
	to, err := Of(fresh).Sharer()
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	start = time.Now()
	got, err := to.Import(all)
	if err != nil || int(got[state.ImportMade]) != len(all) {
		b.Fatal(got, err)
	}
	b.ReportMetric(float64(time.Since(start))/float64(len(all)), "adopt-ns-each")
	b.ReportMetric(0, "ns/op")
}
