package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weft/schedule"
)

const ms = time.Millisecond

// pair is a setup of two paths with one bulk stream.
func pair() Setup {
	return Setup{
		Seed: 1, End: 10 * time.Second, Scheduler: "lowrtt", Congestion: "cubic",
		MSS: 1460, Overhead: 40, InitialWindow: 10, ReceiveBuffer: 4 << 20, AckEvery: 2, AckDelay: 25 * ms, Keep: 1000,
		Paths: []PathSetup{
			{Name: "fast", Rate: 20e6, Delay: 10 * ms, Back: 10 * ms, Queue: 100_000},
			{Name: "slow", Rate: 5e6, Delay: 50 * ms, Back: 50 * ms, Queue: 100_000},
		},
		Sources: []Source{{Name: "bulk", Count: 1, Size: Unlimited}},
	}
}

func run(t testing.TB, s Setup) Result {
	t.Helper()
	m, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBulkFillsBothPaths(t *testing.T) {
	for _, c := range Controls() {
		t.Run(c, func(t *testing.T) {
			s := pair()
			s.End = 60 * time.Second
			s.Congestion = c
			r := run(t, s)
			ideal := int64(25_000_000) * 1460 / 1500
			t.Logf("%.2f Mbit/s of %.2f", float64(r.Goodput)/1e6, float64(ideal)/1e6)
			if r.Goodput > ideal || r.Goodput < ideal*85/100 {
				t.Errorf("goodput is %d bit/s, want 85%% to 100%% of %d", r.Goodput, ideal)
			}
		})
	}
}

// anything returns a setup of whatever a scenario may say, to provoke whatever
// may go wrong.
func anything(r *rand.Rand) Setup {
	pick := func(all []string) string { return all[r.IntN(len(all))] }
	ppm := func(most uint32) uint32 { return uint32(r.IntN(2)) * r.Uint32N(most) }
	s := Setup{
		Seed: r.Uint64(), End: time.Duration(1+r.IntN(20)) * time.Second,
		Scheduler: pick(schedule.Orders()) + "+" + pick(schedule.Routers()), Congestion: pick(Controls()),
		MSS: 100 + r.Int64N(9000), Overhead: r.Int64N(100), InitialWindow: 1 + r.Int64N(20),
		AckEvery: 1 + r.IntN(4), AckDelay: time.Duration(r.IntN(50)) * ms, SamePath: r.IntN(2) == 0, Keep: r.IntN(5), Linux: r.IntN(4) == 0,
	}
	if r.IntN(3) > 0 {
		s.ReceiveBuffer = s.MSS * (2 + r.Int64N(300))
	}
	for i := range 1 + r.IntN(4) {
		p := PathSetup{
			Name: fmt.Sprint(i), Rate: 100_000 + r.Int64N(30e6), Delay: time.Duration(r.IntN(100)) * ms, Back: time.Duration(r.IntN(100)) * ms,
			Jitter: time.Duration(r.IntN(2)*r.IntN(30)) * ms, Queue: 3000 + r.Int64N(200_000), CoDel: r.IntN(3) == 0, Target: 5 * ms, Interval: 100 * ms,
			Loss: Loss{Good: ppm(50_000), Bad: ppm(900_000), Enter: ppm(10_000), Leave: 1 + r.Uint32N(500_000)}, AckLoss: ppm(300_000), Weight: r.Uint32N(5),
			StartDown: r.IntN(8) == 0,
		}
		if r.IntN(4) == 0 {
			at := Time(0)
			for range 1 + r.IntN(200) {
				at += time.Duration(r.IntN(20)) * ms
				p.Trace = append(p.Trace, at)
			}
			p.Trace = append(p.Trace, at+ms)
			p.Rate = 0
		}
		at := Time(0)
		for range r.IntN(4) {
			at += time.Duration(1+r.IntN(4000)) * ms
			p.Changes = append(p.Changes, Change{At: at, Up: r.IntN(2) == 0})
		}
		s.Paths = append(s.Paths, p)
	}
	for i := range 1 + r.IntN(3) {
		s.Sources = append(s.Sources, Source{
			Name: fmt.Sprint(i), First: time.Duration(r.IntN(1000)) * ms, Every: time.Duration(1+r.IntN(500)) * ms, Count: 1 + r.IntN(100),
			Poisson: r.IntN(2) == 0, Size: 1 + r.Int64N(300_000), Spread: []Spread{Fixed, Exponential, Pareto}[r.IntN(3)],
			Priority: r.Int32N(3), Weight: r.Uint32N(4), Deadline: time.Duration(r.IntN(500)) * ms,
		})
	}
	if r.IntN(3) == 0 {
		s.Sources = append(s.Sources, Source{Name: "page", Every: 700 * ms, Count: 5, Page: []Item{
			{After: -1, Wait: 5 * ms, Size: 20_000}, {After: 0, Wait: ms, Size: 50_000}, {After: 0, Size: 1}, {After: 2, Wait: 30 * ms, Size: 100_000},
		}})
	}
	return s
}

func digest(t testing.TB, s Setup) string {
	t.Helper()
	h := sha256.New()
	m, err := New(s, func(e Event) { fmt.Fprintln(h, e) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(context.Background())
	if err != nil {
		t.Fatalf("%v\nin %+v", err, s)
	}
	j, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	h.Write(j)
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func TestNothingIsLostTrackOfInAnySetup(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		run(t, anything(r))
	}
}

func BenchmarkPackets(b *testing.B) {
	s := pair()
	s.Paths[0].Rate, s.Paths[1].Rate = 200e6, 50e6
	s.Paths[0].Queue, s.Paths[1].Queue = 500_000, 500_000
	s.End = 20 * time.Second
	var packets uint64
	for b.Loop() {
		packets += run(b, s).Packets
	}
	b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
}
