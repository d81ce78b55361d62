package offload

// This test builds the paths of one flow, starts every router, and measures briefly.
// It does not check the figures; it checks that packets arrive intact, are refused,
// and are counted.

import (
	"slices"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasured(t *testing.T) {
	weft := benchtest.Weft(t, Needs()...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1, Smoke: true})
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{Cases: []string{"pps64-nat-1", "pps64-drop-1", "pps64-drop-learnt", "tcp1-nat-1", "cpu-nat-paced", "cpu-nat-udp"}})
}

func TestEveryBarIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	for _, bar := range b.Bars {
		for _, s := range []string{bar.Subject, bar.Of} {
			is := slices.ContainsFunc(b.Cases, func(c bench.Case) bool { return c.Name == bar.Case }) &&
				slices.ContainsFunc(b.Subjects, func(v bench.Subject) bool { return v.Name == s })
			if !is || !b.Fits(bar.Case, s) {
				t.Errorf("bar %+v: %s is not measured there", bar, s)
			}
		}
	}
}

// What is measured on a path that is gone has to be asked for, or it would be taken
// for a figure of the next round.
func TestOnlyWhatIsAskedForIsMeasuredOfAMillionFlows(t *testing.T) {
	b := Bench(1)
	for _, cases := range [][]string{nil, {"pps64-nat-mixed", "growth-nat"}, {"pps64-nat-1"}} {
		plan, err := b.Plan(bench.Options{Rounds: 1, Cases: cases})
		if err != nil {
			t.Fatal(err)
		}
		m := &Measurer{o: Options{Cases: cases}}
		want := map[figure]bool{}
		for _, s := range plan {
			want[figure{s.Case.Name, s.Subject}] = slices.Contains(crowds, s.Case.Name)
		}
		for _, c := range crowds {
			for _, s := range b.Subjects {
				if got := m.asked(c, s.Name); got != want[figure{c, s.Name}] {
					t.Errorf("of %v, %s of %s: %v", cases, c, s.Name, got)
				}
			}
		}
	}
}
