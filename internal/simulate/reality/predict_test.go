package reality

import (
	"math"
	"testing"
	"time"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
)

// measured is what Linux 6.18 was seen to take for the mix, in tenths of
// milliseconds: medians of the rounds of weft sim verify.
var measured = []time.Duration{380, 1844, 314, 1847, 229, 3456, 1088, 355, 9114, 1608, 229, 2416}

const measuredBulk = 3655 * time.Millisecond

func TestThePredictionIsNearWhatTheKernelWasSeenToDo(t *testing.T) {
	w := Workloads()
	bulk, err := Predict(t.Context(), Unequal(), w[0].Sizes, w[0].Pause)
	if err != nil {
		t.Fatal(err)
	}
	if e := float64(bulk[0])/float64(measuredBulk) - 1; math.Abs(e) > 0.1 {
		t.Errorf("bulk is predicted to take %s, %+.1f%%", bulk[0], 100*e)
	}
	mix, err := Predict(t.Context(), Unequal(), w[1].Sizes, w[1].Pause)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range measured {
		k *= time.Millisecond / 10
		if e := float64(mix[i])/float64(k) - 1; math.Abs(e) > 0.1 {
			t.Errorf("transfer %d is predicted to take %s, the kernel took %s: %+.1f%%", i+1, mix[i], k, 100*e)
		}
	}
}

func TestTheScenarioOfTheKernelIsTheOneThatIsVerified(t *testing.T) {
	src, err := scenario.Find("kernel")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	s.Setup.Keep = 100
	run, err := simulate.New(s.Setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := Workloads()[1]
	want, err := Predict(t.Context(), Unequal(), w.Sizes, w.Pause)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Streams) != len(want) {
		t.Fatalf("%d transfers, want %d", len(r.Streams), len(want))
	}
	for i, x := range r.Streams {
		if got := x.End - x.Begin; got != want[i] || x.Size != w.Sizes[i] {
			t.Errorf("transfer %d of %d bytes takes %s, want %d bytes and %s", i+1, x.Size, got, w.Sizes[i], want[i])
		}
	}
}

// The links' queue is the simulator's.
func TestABottleneckServesAndDropsAsASimulatedOneDoes(t *testing.T) {
	b := bottleneck{shape: Shape{Rate: 8e6, Queue: 3000}} // 1000 bytes take 1 ms
	const ms = time.Millisecond
	for i, c := range []struct {
		at, leaves time.Duration
		taken      bool
	}{
		{0, 1 * ms, true}, {0, 2 * ms, true}, {0, 3 * ms, true}, {0, 4 * ms, true}, // one in service, three wait
		{0, 0, false}, {1*ms - 1, 0, false}, // the queue is full until the second begins
		{1 * ms, 5 * ms, true}, {1 * ms, 0, false},
		{20 * ms, 21 * ms, true}, // idle meanwhile
	} {
		at, ok := b.send(c.at, 1000)
		if ok != c.taken || at != c.leaves {
			t.Errorf("packet %d at %s leaves at %s (%t), want %s (%t)", i, c.at, at, ok, c.leaves, c.taken)
		}
	}
	free := bottleneck{}
	if at, ok := free.send(7*ms, 1500); at != 7*ms || !ok {
		t.Errorf("without a rate a packet leaves at %s, %t", at, ok)
	}
}

func TestJudgeTakesMediansAndTheWorstTransfer(t *testing.T) {
	const s = time.Second
	v := judge(Workload{Name: "x"}, []round{
		{times: []time.Duration{1 * s, 10 * s}, late: 3}, {times: []time.Duration{3 * s, 30 * s}, late: 9}, {times: []time.Duration{2 * s, 20 * s}},
	}, 2, []time.Duration{3 * s, 19 * s})
	if v.Kernel != 11*s || v.Least != 5500*time.Millisecond || v.Most != 16500*time.Millisecond || v.Rounds != 3 || v.Disturbed != 2 || v.Late != 9 {
		t.Errorf("got %+v", v)
	}
	if math.Abs(v.Worst-0.5) > 1e-9 || math.Abs(v.Error) > 1e-9 || v.KernelSizes[0] != 2*s {
		t.Errorf("worst %f, error %f, medians %v", v.Worst, v.Error, v.KernelSizes)
	}
}
