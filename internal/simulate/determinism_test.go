package simulate

import (
	"math/rand/v2"
	"testing"
	"time"
)

// golden are digests of all events and results of runs; they must be the same on any
// machine and with any compiler options. A change of the model changes them, and its
// commit message says so.
var golden = map[string]string{
	"cubic": "7da51ba28b08b8d3",
	"olia":  "1ca7ec443e5fcdfa",
	"lia":   "a37515ea8d9161df",
	"bbr":   "cc2c64ec8bb342be",
	"linux": "65a582de1a1ea991",
	"all":   "b546a4813c45c358",
}

func TestOneSeedGivesOneResultBitForBit(t *testing.T) {
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			s := pair()
			if name == "all" {
				s = anything(rand.New(rand.NewPCG(5, 20)))
			} else {
				if s.Congestion = name; name == "linux" {
					s.Congestion, s.Linux, s.Scheduler = "cubic", true, "mptcp"
				}
				s.Paths[1].Loss = Loss{Good: 500}
				s.Paths[0].Jitter = 3 * ms
				s.Sources = append(s.Sources, Source{Name: "web", Poisson: true, Every: 100 * ms, Size: 50_000, Spread: Pareto})
			}
			if got := digest(t, s); got != want {
				t.Errorf("digest is %s, want %s", got, want)
			}
		})
	}
}

func TestAnotherSeedGivesAnotherResult(t *testing.T) {
	s := pair()
	s.Paths[0].Jitter = ms
	a := digest(t, s)
	s.Seed++
	if digest(t, s) == a {
		t.Error("the seed changes nothing")
	}
}

func TestRecordingChangesNothing(t *testing.T) {
	s := pair()
	m, err := New(s, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if q := run(t, s); q.Events != r.Events || q.Delivered != r.Delivered {
		t.Errorf("%d events unrecorded, %d recorded", q.Events, r.Events)
	}
}

func TestSchedulersMeetTheSameArrivals(t *testing.T) {
	arrivals := func(scheduler string) (all []Event) {
		s := pair()
		s.Scheduler = scheduler
		s.Sources = []Source{{Poisson: true, Every: 30 * ms, Size: 50_000, Spread: Exponential}}
		m, err := New(s, func(e Event) {
			if e.Kind == Arrive {
				all = append(all, e)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return all
	}
	a, b := arrivals("roundrobin"), arrivals("shortest+ecf")
	if len(a) < 200 || len(a) != len(b) {
		t.Fatalf("%d and %d streams", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("arrival %d is %+v and %+v", i, a[i], b[i])
		}
	}
}

func TestEveryStreamEndsOnceAPathIsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		s := anything(r)
		s.End = 24 * time.Hour
		for i := range s.Paths {
			p := &s.Paths[i]
			p.Loss.Bad = min(p.Loss.Bad, 500_000)
			p.Changes = append(p.Changes, Change{At: 30 * time.Second, Up: true})
		}
		if res := run(t, s); res.Open > 0 {
			t.Fatalf("%d streams never ended in %+v", res.Open, s)
		}
	}
}
