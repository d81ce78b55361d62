package stateful

// This test builds every path, starts every router, and measures each kind of
// case once, briefly and with few sessions. What it measures does not matter here;
// that packets and bytes come through intact does.

import (
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasuredInEachKindOfCase(t *testing.T) {
	weft := benchtest.Weft(t, Needs(nil)...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1, Sessions: 3000, Smoke: true}, true)
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{Cases: []string{"tcp1-4to6", "pps64-1", "setup", "pps64-zipf-1000000", "kept-1000000", "memory-1000000"}})
}

func TestEveryBarAndLimitIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	about := map[string][]string{}
	for _, bar := range b.Bars {
		about[bar.Case] = append(about[bar.Case], bar.Subject, bar.Of)
	}
	for _, l := range b.Limits {
		about[l.Case] = append(about[l.Case], l.Subject)
	}
	for c, subjects := range about {
		for _, s := range subjects {
			if _, err := b.Plan(bench.Options{Rounds: 1, Cases: []string{c}, Subjects: []string{s}}); err != nil {
				t.Error(err)
			}
		}
	}
}
