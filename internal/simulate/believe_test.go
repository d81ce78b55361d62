package simulate

import (
	"math"
	"testing"
	"time"
)

// These tests compare the simulator with what can be computed without it.

// open is a path without congestion control: the window never limits.
func open(rate int64) Setup {
	return Setup{
		Seed: 11, Scheduler: "lowrtt", Congestion: "newreno", MSS: 1250, InitialWindow: 1e7, AckEvery: 1,
		Paths: []PathSetup{{Name: "a", Rate: rate, Queue: 1 << 40}},
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %.4g, expected %.4g (%+.2f%%)", what, got, want, 100*(got/want-1))
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %g, want %g within %g%%", what, got, want, 100*tolerance)
	}
}

// Pollaczek and Khinchine: in M/G/1 the mean wait is
// rho/(1-rho) (1+c^2)/2 service times; c is 0 for D and 1 for M.
func TestAQueueWaitsAsLongAsMD1AndMM1Do(t *testing.T) {
	const service = time.Millisecond // 1250 bytes at 10 Mbit/s
	for _, load := range []float64{0.3, 0.5, 0.8} {
		for _, spread := range []Spread{Fixed, Exponential} {
			s := open(10e6)
			s.MSS = 1 << 20 // every stream is one packet
			// far away, so that no wait is taken for a failure
			s.Paths[0].Delay, s.Paths[0].Back = time.Second, time.Second
			s.Sources = []Source{{Poisson: true, Every: Time(float64(service) / load), Count: 200_000, Size: 1250, Spread: spread}}
			r := run(t, s)
			c2 := 0.0
			if spread == Exponential {
				c2 = 1
			}
			want := load / (1 - load) * (1 + c2) / 2 * float64(service)
			wait := float64(r.Sources[0].Complete.Mean) - float64(service+time.Second)
			near(t, string(spread)+" wait at load "+time.Duration(want).String(), wait, want, 0.03)
			near(t, "utilisation", float64(r.Paths[0].Busy)/float64(r.End-time.Second), load, 0.01)
		}
	}
}

func TestATransferTakesToTheNanosecondWhatItMust(t *testing.T) {
	s := open(10e6)
	s.Paths[0].Delay, s.Paths[0].Back = 7*ms, 3*ms
	s.Sources = []Source{{Count: 1, Size: 1250*1000 - 250}}
	r := run(t, s)
	// 999 packets of 1 ms, one of 1000 bytes, and the delay
	if got, want := r.Sources[0].Complete.Max, 999*ms+800*time.Microsecond+7*ms; got != want {
		t.Errorf("took %s, want %s", got, want)
	}
}

// With an initial window of 10 and nothing lost, a transfer of 70 packets takes
// the windows 10, 20, 40: two round trips and what the last one needs (RFC 5681
// section 3.1). The rate is so large that only round trips count.
func TestSlowStartDoublesEachRoundTrip(t *testing.T) {
	s := open(10e9)
	s.InitialWindow = 10
	s.Paths[0].Delay, s.Paths[0].Back = 50*ms, 50*ms
	s.Sources = []Source{{Count: 1, Size: 1250 * 70}}
	got := run(t, s).Sources[0].Complete.Max
	if want := 250 * ms; got < want || got > want+ms {
		t.Errorf("70 packets took %s, want %s", got, want)
	}
	s.Sources[0].Size += 1250 // one more than three windows
	if got := run(t, s).Sources[0].Complete.Max; got < 350*ms || got > 351*ms {
		t.Errorf("71 packets took %s, want 350ms", got)
	}
}

func TestLargeTransfersApproachTheSumOfTheCapacities(t *testing.T) {
	for _, scheduler := range []string{"lowrtt", "roundrobin", "weighted", "ecf", "daps", "blest"} {
		s := pair()
		s.Scheduler, s.End, s.ReceiveBuffer = scheduler, 0, 64<<20
		s.Sources = []Source{{Count: 1, Size: 200_000_000}}
		r := run(t, s)
		ideal := 200e6 * 8 / (25e6 * 1460 / 1500) * 1e9
		near(t, scheduler, float64(r.End), ideal, 0.02)
		if float64(r.End) < ideal {
			t.Errorf("%s is faster than all paths together", scheduler)
		}
	}
}

// lossy is one NewReno connection whose losses, not queues, limit it.
func lossy(ppm uint32, rtt time.Duration) Setup {
	s := open(1e9)
	s.MSS, s.InitialWindow, s.End = 1250, 10, 20*time.Minute
	s.Paths[0].Delay, s.Paths[0].Back, s.Paths[0].Loss.Good = rtt/2, rtt/2, ppm
	s.Sources = []Source{{Count: 1, Size: Unlimited}}
	return s
}

// M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP
// Congestion Avoidance Algorithm", CCR 27(3), 1997: MSS/RTT sqrt(3/2 /p) for
// periodic losses; with independent ones the constant is 1.31 instead of 1.22
// (T. Ott, J. Kemperman, M. Mathis, 1996: "The Stationary Behavior of Ideal TCP
// Congestion Avoidance").
func TestNewRenoFollowsTheSquareRootOfTheLossRate(t *testing.T) {
	for _, ppm := range []uint32{400, 1600, 6400} {
		r := run(t, lossy(ppm, 100*ms))
		p := float64(ppm) / 1e6
		near(t, "window in packets", float64(r.Goodput)/8/1250*0.1, 1.31/math.Sqrt(p), 0.08)
	}
}

// RFC 9438 section 5.1, figure 6: with periodic losses the average window is
// (C (3+beta) / (4 (1-beta)))^(1/4) RTT^(3/4) / p^(3/4); for independent losses
// only the order is expected, and the exponents.
func TestCUBICFollowsItsResponseFunction(t *testing.T) {
	window := func(ppm uint32, rtt time.Duration) float64 {
		s := lossy(ppm, rtt)
		s.Congestion = "cubic"
		return float64(run(t, s).Goodput) / 8 / 1250 * rtt.Seconds()
	}
	model := func(p, rtt float64) float64 {
		return math.Pow(0.4*3.7/(4*0.3), 0.25) * math.Pow(rtt/p, 0.75)
	}
	a, b := window(100, 400*ms), window(400, 400*ms)
	near(t, "window at 0.01%", a, model(1e-4, 0.4), 0.25)
	near(t, "ratio of windows at a quarter of the loss", a/b, math.Pow(4, 0.75), 0.12)
	near(t, "ratio of windows at a quarter of the round trip", window(100, 400*ms)/window(100, 100*ms), math.Pow(4, 0.75), 0.15)
}

// two is two equal lossy paths of one connection.
func two(control string, p0, p1 uint32) Setup {
	s := lossy(p0, 100*ms)
	s.Congestion = control
	s.Paths = append(s.Paths, s.Paths[0])
	s.Paths[1].Loss.Good = p1
	return s
}

// RFC 6356 section 2: a multipath flow takes at least as much as one TCP on the
// best path, and no more from any than one TCP would.
func TestCoupledControlTakesAsMuchAsOneConnection(t *testing.T) {
	alone := float64(run(t, lossy(1600, 100*ms)).Goodput)
	both := float64(run(t, two("newreno", 1600, 1600)).Goodput)
	near(t, "two NewReno", both, 2*alone, 0.05)
	near(t, "LIA", float64(run(t, two("lia", 1600, 1600)).Goodput), alone, 0.25)
	near(t, "OLIA", float64(run(t, two("olia", 1600, 1600)).Goodput), alone, 0.25)
}

// R. Khalili et al., CoNEXT 2012: LIA keeps sending over a congested path, OLIA
// leaves it to others.
func TestOLIALeavesTheWorsePathMoreThanLIADoes(t *testing.T) {
	share := func(control string) float64 {
		r := run(t, two(control, 400, 6400))
		return float64(r.Paths[1].Bytes) / float64(r.Paths[0].Bytes+r.Paths[1].Bytes)
	}
	lia, olia := share("lia"), share("olia")
	t.Logf("the worse path carries %.1f%% with LIA, %.1f%% with OLIA", 100*lia, 100*olia)
	if olia >= lia || lia > 0.2 {
		t.Errorf("the worse path carries %f with LIA, %f with OLIA", lia, olia)
	}
}

// The share of time in the bad state is enter/(enter+leave), and a bad time
// lasts 1/leave packets.
func TestBurstsLoseWhatTheyShould(t *testing.T) {
	s := open(100e6)
	s.AckEvery = 1
	s.Congestion = "bbr" // does not mind losses
	s.Paths[0].Delay, s.Paths[0].Back = 5*ms, 5*ms
	s.End, s.InitialWindow = time.Minute, 10
	s.Paths[0].Queue = 1 << 20
	s.Paths[0].Loss = Loss{Good: 1000, Enter: 2000, Leave: 100_000, Bad: 500_000}
	s.Sources = []Source{{Count: 1, Size: Unlimited}}
	bursts, after := 0, uint64(0)
	m, err := New(s, func(e Event) {
		if e.Kind == Lose {
			if e.Packet > after {
				bursts++
			}
			after = e.Packet + 60 // a burst is over after 60 packets without loss
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := r.Paths[0]
	bad := 2.0 / 102
	near(t, "loss rate", float64(p.Lost)/float64(p.Lost+p.Arrived), bad*0.5+(1-bad)*0.001, 0.08)
	independent := float64(p.Lost) // each loss would be a burst of its own, nearly
	if float64(bursts) > independent/2 {
		t.Errorf("%d losses came in %d bursts", p.Lost, bursts)
	}
}

// RFC 8289: a standing queue shrinks to about the target, at full use.
func TestCoDelKeepsTheQueueShort(t *testing.T) {
	wait := func(codel bool) (Time, float64) {
		s := pair()
		s.End = time.Minute
		s.Congestion = "newreno"
		s.Paths = s.Paths[:1]
		s.Paths[0].Queue = 500_000
		s.Paths[0].CoDel, s.Paths[0].Target, s.Paths[0].Interval = codel, 5*ms, 100*ms
		p := run(t, s).Paths[0]
		return p.QueueDelay / Time(p.Packets), float64(p.Busy) / float64(time.Minute)
	}
	tail, _ := wait(false)
	managed, busy := wait(true)
	t.Logf("mean wait %s with drop-tail, %s with CoDel, busy %.1f%%", tail, managed, 100*busy)
	if tail < 50*ms || managed > 15*ms || busy < 0.93 {
		t.Errorf("mean wait %s with drop-tail, %s with CoDel, busy %.3f", tail, managed, busy)
	}
}

// The first version of BBR keeps the queue short where CUBIC fills it.
func TestBBRKeepsTheQueueShort(t *testing.T) {
	wait := func(control string) Time {
		s := pair()
		s.Paths = s.Paths[:1]
		s.Paths[0].Queue = 300_000
		s.Congestion = control
		s.End = time.Minute
		p := run(t, s).Paths[0]
		return p.QueueDelay / Time(p.Packets)
	}
	if b, c := wait("bbr"), wait("cubic"); b > 20*ms || b*3 > c {
		t.Errorf("mean wait %s with BBR, %s with CUBIC", b, c)
	}
}

// mahimahi: an opportunity each millisecond is 12.032 Mbit/s, and wasted where
// nothing waits.
func TestATraceSendsAtItsOpportunities(t *testing.T) {
	s := open(0)
	s.MSS = 1504
	s.Paths[0].Trace = []Time{2 * ms, 5 * ms, 6 * ms, 10 * ms}
	s.Sources = []Source{{Count: 1, Size: 1504 * 6}}
	// 2, 5, 6, 10, 12, 15
	if got := run(t, s).Sources[0].Complete.Max; got != 15*ms {
		t.Errorf("six packets took %s, want 15ms", got)
	}
	s.Sources[0].First = 5*ms + 1
	// 6, 10, 12, 15, 16, 20
	if got := run(t, s).End; got != 20*ms {
		t.Errorf("from 5 ms on they took until %s, want 20ms", got)
	}
	s.MSS = 752 // two in each
	s.Sources[0].First = 0
	if got := run(t, s).End; got != 15*ms {
		t.Errorf("twelve packets of half the size took until %s, want 15ms", got)
	}
	s.MSS = 3008 // two for each
	if got := run(t, s).End; got != 15*ms {
		t.Errorf("three packets of twice the size took until %s, want 15ms", got)
	}
}

func TestAFailedPathsDataGoesByTheOther(t *testing.T) {
	s := pair()
	s.End = 0
	s.Sources = []Source{{Count: 1, Size: 5_000_000}}
	s.Paths[0].Changes = []Change{{At: time.Second}}
	whole := run(t, s)
	// at most 1 s of both, then 5 Mbit/s alone, and a timeout's worth of doubt
	rest := (5e6*8 - 25e6*1460.0/1500) / (5e6 * 1460.0 / 1500)
	if got := whole.End.Seconds(); got < 1+rest || got > (1+rest)*1.15+1 {
		t.Errorf("took %.2f s, want a little over %.2f", got, 1+rest)
	}
	s.Paths[0].Changes = append(s.Paths[0].Changes, Change{At: 2 * time.Second, Up: true})
	if again := run(t, s); again.End >= whole.End-time.Second {
		t.Errorf("with the path back after a second it took %s, without %s", again.End, whole.End)
	}
}
