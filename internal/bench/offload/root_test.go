package offload

// This test builds the paths of one flow, starts every router, and measures
// briefly. What it measures is nobody's business; that packets come through
// intact, are refused, and are counted is.

import (
	"slices"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasured(t *testing.T) {
	weft := benchtest.Weft(t, Needs()...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{Cases: []string{"pps64-nat-1", "pps64-drop-1", "pps64-drop-learnt", "tcp1-nat-1", "cpu-nat", "cpu-nat-200", "cpu-nat-paced", "cpu-nat-udp"}})
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

// A name is that of a namespace: learning takes a path beside the one that is
// there.
func TestLearningTakesAPathOfItsOwn(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Bench(1).Subjects {
		for _, name := range []string{flowsName(s.Name, 1), flowsName(s.Name, many), learnName(s.Name)} {
			if names[name] {
				t.Errorf("two paths are called %s", name)
			}
			names[name] = true
		}
	}
}
