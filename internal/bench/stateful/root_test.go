package stateful

// This test builds every path, starts every router, and measures everything
// once, briefly and with few sessions. What it measures is nobody's business;
// that packets and bytes come through intact is.

import (
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasuredInEveryCase(t *testing.T) {
	weft := benchtest.Weft(t, Needs(nil)...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1, Sessions: 3000}, true)
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{})
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
