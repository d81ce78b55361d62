package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	mss = 1000
)

// path has a round trip in milliseconds, and a window and bytes in flight in packets.
func path(rtt, window, inFlight int64) Path {
	return Path{RTT: time.Duration(rtt) * ms, Window: window * mss, InFlight: inFlight * mss}
}

// view has one stream of so many packets.
func view(packets int64, paths ...Path) *View {
	return &View{MSS: mss, Paths: paths, Backlog: packets * mss, Streams: []Stream{{ID: 1, Remaining: packets * mss}}}
}

func must(t testing.TB, name string) Scheduler {
	t.Helper()
	s, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// every is all names: each path choice with each stream choice.
func every() []string {
	var all []string
	for _, r := range Routers() {
		for _, o := range Orders() {
			all = append(all, o+"+"+r)
		}
	}
	return all
}

const wait = -1

func TestPathChoices(t *testing.T) {
	withWindow := func(v *View, window int64) *View { v.Window = window * mss; return v }
	tests := []struct {
		name      string
		scheduler string
		view      *View
		path      int
	}{
		{"LowRTT takes the path of the shorter round trip", "lowrtt", view(9, path(100, 10, 0), path(20, 10, 0)), 1},
		{"LowRTT takes the slow path when the fast one is full", "lowrtt", view(9, path(100, 10, 0), path(20, 10, 10)), 0},
		{"LowRTT waits when all windows are full", "lowrtt", view(9, path(100, 10, 10), path(20, 10, 10)), wait},
		{"a window with room for half a packet has no room", "lowrtt", view(9, Path{RTT: ms, Window: 1500, InFlight: 1000}), wait},
		{"a path that is down is not used", "lowrtt", view(9, Path{RTT: ms, Window: 9000, Down: true}), wait},
		{"a path that is held by its pacing is not used", "lowrtt", view(9, Path{RTT: ms, Window: 9000, Held: true}), wait},
		{"ECF uses the slow path while a lot is left", "ecf", view(1000, path(20, 10, 10), path(100, 10, 0)), 1},
		{"ECF waits for the fast path at the end, where the slow one would be later", "ecf", view(10, path(20, 10, 10), path(200, 10, 0)), wait},
		{"ECF uses the slow path at the end when the second inequality says it ends in time", "ecf", view(2, path(20, 10, 10), path(100, 10, 0)), 1},
		{"ECF does not wait for a fast path that has room", "ecf", view(10, path(20, 10, 0), path(200, 10, 0)), 0},
		{"ECF does not wait for a path that is down", "ecf", view(10, Path{RTT: ms, Down: true}, path(200, 10, 0)), 1},
		{"BLEST is LowRTT when the receiver has no limit", "blest", view(1000, path(20, 10, 10), path(200, 10, 0)), 1},
		// X = (10 + (10-1)/2) 10 = 145 packets, times 1.2 = 174, against 200 - 1
		{"BLEST uses the slow path when the receiver can hold what the fast one sends meanwhile", "blest", withWindow(view(1000, path(20, 10, 10), path(200, 10, 0)), 200), 1},
		{"BLEST waits when the receiver cannot", "blest", withWindow(view(1000, path(20, 10, 10), path(200, 10, 0)), 174), wait},
		{"BLEST uses the slow path at exactly its bound", "blest", withWindow(view(1000, path(20, 10, 10), path(200, 10, 0)), 175), 1},
		{"MPTCP takes the path that drains what it has first", "mptcp", view(9, path(20, 10, 9), path(100, 10, 1)), 1},
		{"MPTCP takes the first of two idle paths", "mptcp", view(9, path(100, 10, 0), path(20, 10, 0)), 0},
		{"MPTCP waits for a full path that drains sooner", "mptcp", view(9, path(20, 10, 10), path(900, 10, 9)), wait},
		{"DAPS waits when the fast path ends the stream before the slow packet is there", "daps", view(20, path(20, 10, 10), path(200, 10, 0)), wait},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := wait
			if d, ok := must(t, tt.scheduler).Next(tt.view); ok {
				got = d.Paths.First()
			}
			if got != tt.path {
				t.Errorf("took path %d, want %d", got, tt.path)
			}
		})
	}
}

func TestECFStaysWithWaitingUntilTheBalanceTipsByAQuarter(t *testing.T) {
	v := view(60, path(20, 10, 10), path(150, 10, 0)) // 20 + 60/10*20 = 140 < 150
	s := must(t, "ecf")
	if _, ok := s.Next(v); ok {
		t.Fatal("did not wait")
	}
	v.Backlog = 80 * mss // 180 >= 150, but < 187.5
	if _, ok := s.Next(v); ok {
		t.Error("gave up waiting inside the hysteresis")
	}
	v.Backlog = 84 * mss // 188
	if _, ok := s.Next(v); !ok {
		t.Error("waits although the slow path is faster by more than a quarter")
	}
	v.Backlog = 80 * mss
	if _, ok := s.Next(v); !ok {
		t.Error("the flag was not cleared")
	}
}

func TestBLESTsLambdaGrowsWithStallsAndShrinksWithoutThem(t *testing.T) {
	b := &BLEST{}
	v := view(1000, path(20, 10, 10), path(200, 10, 0))
	v.Window = 1000 * mss
	for i := range 5 {
		b.Path(v, &v.Streams[0])
		if want := min(1300, int64(1200+40*i)); b.lambda != want {
			t.Errorf("after %d stalls lambda is %d, want %d", i, b.lambda, want)
		}
		v.Stalls++
	}
	v.Stalls--
	for range 100 {
		v.Now += 200 * ms
		b.Path(v, &v.Streams[0])
	}
	if b.lambda != 1000 {
		t.Errorf("lambda is %d after a hundred quiet round trips", b.lambda)
	}
}

func TestDAPSSkipsWhatTheFastPathDeliversMeanwhile(t *testing.T) {
	// A packet on the slow path takes 90 ms longer; the fast one delivers 10
	// packets each 20 ms: 45 packets.
	v := view(1000, path(20, 10, 10), path(200, 10, 0))
	d, ok := must(t, "daps").Next(v)
	if !ok || d.Skip != 45*mss || d.Paths != Only(1) {
		t.Errorf("decided %+v %t, want path 1 and to skip 45 packets", d, ok)
	}
	v.Paths[0].InFlight = 0
	if d, _ := must(t, "daps").Next(v); d.Skip != 0 || d.Paths != Only(0) {
		t.Errorf("decided %+v on the fast path", d)
	}
}

func TestPriorityLooksAgainWhenStreamsChange(t *testing.T) {
	v := view(0, path(1, 10, 0))
	v.Streams = []Stream{{ID: 1, Priority: 2, Remaining: mss}, {ID: 2, Priority: 1, Remaining: mss}, {ID: 3, Priority: 1, Deadline: 9, Remaining: mss}}
	s := must(t, "priority")
	chosen := func() uint64 { d, _ := s.Next(v); return v.Streams[d.Stream].ID }
	v.Changed = 1
	if a, b := chosen(), chosen(); a != 3 || b != 3 {
		t.Errorf("chose %d and %d, want 3", a, b)
	}
	v.Streams = v.Streams[:2]
	v.Changed++
	if id := chosen(); id != 2 {
		t.Errorf("chose %d after 3 has gone, want 2", id)
	}
	v.Changed = 0 // not counted
	v.Streams[0].Priority = -1
	if id := chosen(); id != 1 {
		t.Errorf("chose %d, want 1", id)
	}
}

func TestRoundRobinGoesRoundAndPassesOverFullPaths(t *testing.T) {
	v := view(99, path(1, 10, 0), path(2, 10, 10), path(3, 10, 0), path(4, 10, 0))
	s := must(t, "roundrobin")
	want := []int{2, 3, 0, 2, 3, 0}
	for i, w := range want {
		d, ok := s.Next(v)
		if !ok || d.Paths != Only(w) {
			t.Errorf("turn %d took %b, want path %d", i, d.Paths, w)
		}
	}
}

func TestWeightedRoundRobinKeepsSharesAndSpreadsThem(t *testing.T) {
	v := view(99, path(1, 10, 0), path(1, 10, 0), path(1, 10, 0))
	v.Paths[0].Weight, v.Paths[1].Weight, v.Paths[2].Weight = 5, 1, 1
	s := must(t, "weighted")
	var got strings.Builder
	for range 14 {
		d, _ := s.Next(v)
		got.WriteByte("abc"[d.Paths.First()])
	}
	if got.String() != "aabacaaaabacaa" {
		t.Errorf("order is %s", got.String())
	}
}

func TestWeightedRoundRobinTakesRatesForWeights(t *testing.T) {
	v := view(99, path(1, 10, 0), path(1, 10, 0))
	v.Paths[0].Rate, v.Paths[1].Rate = 2_500_000, 625_000
	s := must(t, "weighted")
	var count [2]int
	for range 1000 {
		d, _ := s.Next(v)
		count[d.Paths.First()]++
	}
	if count != [2]int{800, 200} {
		t.Errorf("shares are %v of 1000, want 800 and 200", count)
	}
}

func TestRedundantUsesAllPathsWithRoom(t *testing.T) {
	v := view(99, path(1, 10, 0), path(1, 10, 10), path(1, 10, 0))
	d, ok := must(t, "redundant").Next(v)
	if !ok || d.Paths != 0b101 || d.Paths.Len() != 2 {
		t.Errorf("took %b", d.Paths)
	}
}

func TestStreamChoices(t *testing.T) {
	streams := []Stream{
		{ID: 3, Remaining: 500, Priority: 1},
		{ID: 5, Remaining: 300, Priority: 0},
		{ID: 8, Remaining: 900, Priority: 0, Deadline: 9 * ms},
		{ID: 9, Remaining: 300, Priority: 0, Deadline: 7 * ms},
	}
	tests := []struct {
		name, order string
		last        uint64
		want        int
	}{
		{"turns go to the next ID", "turns", 5, 2},
		{"turns go on after a stream that has ended", "turns", 6, 2},
		{"turns begin again at the first", "turns", 9, 0},
		{"FIFO takes the oldest", "fifo", 5, 0},
		{"shortest takes the least remaining, the older of two", "shortest", 5, 1},
		{"priority takes the earliest deadline of the most urgent", "priority", 5, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := view(0, path(1, 10, 0))
			v.Streams, v.Last = streams, tt.last
			d, ok := must(t, tt.order).Next(v)
			if !ok || d.Stream != tt.want {
				t.Errorf("took stream %d, want %d", d.Stream, tt.want)
			}
		})
	}
}

// serve takes n decisions and carries them out on the streams' counters.
func serve(s Scheduler, v *View, n int) {
	for range n {
		d, _ := s.Next(v)
		v.Streams[d.Stream].Sent += mss
		v.Last = v.Streams[d.Stream].ID
	}
}

func TestFairSharesFollowWeightsAndLatecomersDoNotCatchUp(t *testing.T) {
	v := view(0, path(1, 10, 0))
	v.Streams = []Stream{{ID: 1, Weight: 3, Remaining: 1 << 40}, {ID: 2, Remaining: 1 << 40}}
	s := must(t, "fair")
	serve(s, v, 400)
	if a, b := v.Streams[0].Sent, v.Streams[1].Sent; a != 300*mss || b != 100*mss {
		t.Errorf("sent %d and %d, want 3 to 1", a, b)
	}
	v.Streams = append(v.Streams, Stream{ID: 3, Remaining: 1 << 40})
	serve(s, v, 500)
	if a, b, c := v.Streams[0].Sent, v.Streams[1].Sent, v.Streams[2].Sent; a != 600*mss || b != 200*mss || c != 100*mss {
		t.Errorf("sent %d, %d, %d, want 3 to 1 to 1 since the third came", a, b, c)
	}
}

func TestNewRefusesNamesThatAreNone(t *testing.T) {
	for _, name := range []string{"", "ecff", "ecf+shortest", "shortest+", "+ecf", "shortest+ecf+daps"} {
		if _, err := New(name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

// random returns a View as a busy sender may have it.
func random(r *rand.Rand) *View {
	v := &View{MSS: 1 + r.Int64N(9000), Now: time.Duration(r.Int64N(1 << 40)), Stalls: r.Uint64N(9), Last: r.Uint64N(20)}
	for range 1 + r.IntN(8) {
		v.Paths = append(v.Paths, Path{
			RTT: time.Duration(r.Int64N(1 << 35)), RTTVar: time.Duration(r.Int64N(1 << 35)),
			Window: r.Int64N(1 << 30), InFlight: r.Int64N(1 << 30), Rate: r.Int64N(1 << 40),
			Weight: r.Uint32N(10), Down: r.IntN(5) == 0, Held: r.IntN(5) == 0,
		})
	}
	for i := range r.IntN(12) {
		s := Stream{ID: uint64(2 * i), Remaining: 1 + r.Int64N(1<<45), Sent: r.Int64N(1 << 45), Priority: r.Int32N(3), Weight: r.Uint32N(5)}
		v.Streams = append(v.Streams, s)
		v.Backlog += s.Remaining
	}
	v.Window = r.Int64N(2) * r.Int64N(1<<30)
	return v
}

func TestNoDecisionIsImpossibleAndEqualHistoriesDecideEqually(t *testing.T) {
	for _, name := range every() {
		a, b := must(t, name), must(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		decided := 0
		for range 3000 {
			v := random(r)
			twin := *v
			twin.Streams = slices.Clone(v.Streams)
			d, ok := a.Next(v)
			if e, same := b.Next(&twin); e != d || same != ok {
				t.Fatalf("%s decided %+v, then %+v", name, d, e)
			}
			if !ok {
				continue
			}
			decided++
			if d.Stream < 0 || d.Stream >= len(v.Streams) || d.Paths == 0 || d.Skip < 0 || d.Skip >= v.Streams[d.Stream].Remaining {
				t.Fatalf("%s decided %+v of %+v", name, d, v)
			}
			for s := d.Paths; s != 0; s &= s - 1 {
				if i := s.First(); i >= len(v.Paths) || !v.Paths[i].Room(v.MSS) {
					t.Fatalf("%s took path %d, which has no room, of %+v", name, i, v)
				}
			}
		}
		if decided < 100 {
			t.Errorf("%s decided only %d times", name, decided)
		}
	}
}

func TestMulDivNeitherOverflowsNorRounds(t *testing.T) {
	const top = int64(1<<63 - 1)
	for _, c := range [][4]int64{{7, 3, 2, 10}, {top, top, top, top}, {top, 2, 1, top}, {0, top, 1, 0}, {1 << 40, 1 << 40, 1 << 41, 1 << 39}} {
		if got := mulDiv(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%d * %d / %d is %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
}

// busy is the size that the cost of a decision is stated for: 4 paths, 100
// streams.
func busy() *View {
	v := &View{MSS: 1460, Window: 4 << 20, WindowLeft: 1 << 20, Backlog: 100 << 20}
	for i := range 4 {
		v.Paths = append(v.Paths, Path{
			RTT: time.Duration(10+30*i) * ms, RTTVar: ms, Window: 64 << 10, InFlight: 32 << 10, Rate: int64(1_000_000 * (4 - i)),
		})
	}
	v.Paths[0].InFlight = v.Paths[0].Window
	for i := range 100 {
		v.Streams = append(v.Streams, Stream{ID: uint64(i + 1), Remaining: int64(1 + i*7919%1000*1460)})
	}
	return v
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, name := range every() {
		s, v := must(t, name), busy()
		if n := testing.AllocsPerRun(100, func() { s.Next(v) }); n != 0 {
			t.Errorf("%s allocates %v times a decision", name, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range append(Routers(), Orders()...) {
		b.Run(name, func(b *testing.B) {
			s, v := must(b, name), busy()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%50 == 0 {
					v.Changed++ // a stream comes or goes
				}
				if d, ok := s.Next(v); ok {
					v.Last = v.Streams[d.Stream].ID
					v.Streams[d.Stream].Sent += v.MSS
				}
			}
		})
	}
}
