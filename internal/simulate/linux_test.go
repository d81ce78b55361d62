package simulate

import (
	"slices"
	"testing"
	"time"
)

// kernelPair is pair with the kernel's sender and a transfer.
func kernelPair(sizes ...int64) Setup {
	s := pair()
	s.Linux, s.Scheduler, s.End, s.AckEvery = true, "mptcp", 0, 1
	s.MSS, s.Overhead = 1424, 76
	var row []Item
	for i, size := range sizes {
		row = append(row, Item{After: i - 1, Size: size, Wait: 300 * ms})
	}
	s.Sources = []Source{{Name: "transfer", Count: 1, Page: row}}
	return s
}

// sends returns on which path each byte was first sent, as path and end of runs.
func sends(t *testing.T, s Setup, stream uint64) (runs [][2]int64) {
	t.Helper()
	paths := map[int64]int64{}
	m, err := New(s, func(e Event) {
		if e.Kind == Send && e.Stream == stream && !e.Again {
			if _, ok := paths[e.Offset]; !ok {
				paths[e.Offset] = int64(e.Path)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	for o := range paths {
		offsets = append(offsets, o)
	}
	slices.Sort(offsets)
	for _, o := range offsets {
		if n := len(runs); n > 0 && runs[n-1][0] == paths[o] {
			runs[n-1][1] = o + s.MSS
			continue
		}
		runs = append(runs, [2]int64{paths[o], o + s.MSS})
	}
	return runs
}

// Seen with Linux 6.18 (captures of the check's second transfer): of 100 kB, two
// pieces go on the first path, the one that the send buffer still takes on the
// other, and the rest, for which it grows when packets leave, on the first again.
func TestTheKernelsBurstsGoWhereTheyWereSeenToGo(t *testing.T) {
	const piece = 23 * 1424
	got := sends(t, kernelPair(30_000, 100_000), 2)
	want := [][2]int64{{0, 2 * piece}, {1, 3 * piece}, {0, 71 * 1424}}
	if !slices.Equal(got, want) {
		t.Errorf("runs are %v, want %v", got, want)
	}
}

// Fourteen packets into a queue of eight: five are lost at the end, and nothing
// follows that would tell. A tail loss probe after two round trips does (RFC 8985
// section 7.2).
func TestTheKernelProbesWhenATailIsLost(t *testing.T) {
	s := kernelPair(14 * 1424)
	s.InitialWindow, s.Keep = 20, 1
	s.Paths = s.Paths[:1]
	s.Paths[0].Queue = 8 * 1500
	r := run(t, s)
	took := r.Streams[0].End - r.Streams[0].Begin
	p := r.Paths[0]
	if p.Dropped != 5 || p.Probes != 1 || took < 80*ms || took > 200*ms {
		t.Errorf("took %s with %d drops and %d probes", took, p.Dropped, p.Probes)
	}
	// the probe is lost as well: a retransmission timeout
	s.Paths[0].Changes = []Change{{At: 24 * ms}, {At: 150 * ms, Up: true}}
	if took := run(t, s).Streams[0].End; took < 24*ms+kernelTimeoutMin || took > 600*ms {
		t.Errorf("with the probe lost it took %s", took)
	}
}

func TestAKernelPathThatFailsLeavesItsDataToTheOther(t *testing.T) {
	s := kernelPair(3_000_000)
	s.Paths[0].Changes = []Change{{At: 600 * ms}}
	s.Keep = 1
	r := run(t, s)
	// three megabytes need 0.6 s of both and then four seconds of the slow one, and
	// the kernel some timeouts until it gives the path up
	if took := r.Streams[0].End - r.Streams[0].Begin; took < 3*time.Second || took > 15*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestTimersFireWhenTheWheelTurns(t *testing.T) {
	for _, c := range [][3]Time{
		{0, 5 * ms, 8 * ms}, {1 * ms, 200 * ms, 204 * ms}, {0, 256 * ms, 288 * ms},
		{3 * ms, 300 * ms, 320 * ms}, {0, 2048 * ms, 2304 * ms},
	} {
		if got := wheel(c[0], c[1]); got != c[2] {
			t.Errorf("%s after %s the timer fires at %s, want %s", c[1], c[0], got, c[2])
		}
	}
}

// RFC 6937 section 3: a window of 20 that shrinks to 14 sends 7 packets for 10
// delivered; one whose packets were mostly lost grows as in slow start.
func TestReductionSendsInProportionAndThenSlowly(t *testing.T) {
	const mss = 1000
	var r reduction
	r.begin(20*mss, 14*mss, 19*mss, mss, 0)
	sent, flight := int64(0), int64(19*mss)
	for range 10 {
		flight -= mss
		r.acked(mss, flight, mss, false)
		for flight+mss <= r.window {
			flight += mss
			r.out += mss
			sent++
		}
	}
	if sent != 7 {
		t.Errorf("sent %d packets for 10 delivered, want 7", sent)
	}
	r.begin(20*mss, 14*mss, 0, mss, 0)
	flight = 0
	var rounds []int64
	for acks := int64(1); len(rounds) < 4; {
		n := int64(0)
		for range acks {
			flight = max(0, flight-mss)
			r.acked(mss, flight, mss, true)
			for flight+mss <= r.window {
				flight += mss
				r.out += mss
				n++
			}
		}
		rounds = append(rounds, n)
		acks = n
	}
	if !slices.IsSorted(rounds) || rounds[0] != 2 || rounds[3] > 14 {
		t.Errorf("rounds of %v packets", rounds)
	}
}

func TestSlowStartEndsByTrainOrDelay(t *testing.T) {
	ack := func(now, rtt Time, round bool) acked { return acked{now: now, rtt: rtt, round: round} }
	var h train
	for i := range 40 { // every 0.6 ms, as at 20 Mbit/s
		now := 20*ms + Time(i)*600*time.Microsecond
		over := h.done(ack(now, 20*ms, i == 0), 20)
		if want := now-20*ms > 10500*time.Microsecond; over != want {
			t.Fatalf("after %s of a train slow start is over: %t", now-20*ms, over)
		}
		if over {
			break
		}
	}
	h = train{}
	for i := range 40 { // a gap ends the train
		if h.done(ack(20*ms+Time(i)*2500*time.Microsecond, 20*ms, i == 0), 20) {
			t.Fatal("acknowledgements 2.5 ms apart are taken for a train")
		}
	}
	for i := range 9 {
		over := h.done(ack(200*ms+Time(i)*3*ms, 25*ms, i == 0), 20)
		if want := i == 8; over != want {
			t.Errorf("sample %d, longer by a quarter: over %t", i+1, over)
		}
	}
	if h.done(ack(300*ms, 90*ms, false), 15) {
		t.Error("slow start ends below 16 packets")
	}
}
