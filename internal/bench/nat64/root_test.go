package nat64

// This test builds every path, starts every router, and measures each kind of
// case once and briefly. What it measures does not matter here; that packets and
// bytes come through intact does.

import (
	"fmt"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasuredInEachKindOfCase(t *testing.T) {
	weft := benchtest.Weft(t, Needs(nil, nil)...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{Cases: []string{"tcp1-6to4", "pps1500-4to6", "run-6to4"}})
}

func TestEveryBarIsAboutCasesAndSubjectsThatThereAre(t *testing.T) {
	b := Bench(1)
	for _, bar := range b.Bars {
		for _, s := range []string{bar.Subject, bar.Of} {
			if _, err := b.Plan(bench.Options{Rounds: 1, Cases: []string{bar.Case}, Subjects: []string{s}}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOnlyTheProgramsThatAreUsedAreNeeded(t *testing.T) {
	names := func(cases, subjects []string) (list []string) {
		for _, p := range Needs(cases, subjects) {
			list = append(list, p.Name)
		}
		return list
	}
	for _, c := range []struct{ cases, subjects, want []string }{
		{nil, nil, []string{"nft", "iperf3", "tayga"}},
		{[]string{"pps64-6to4"}, []string{"weft-tc"}, []string{"nft"}},
		{[]string{"tcp1-6to4"}, []string{"tayga"}, []string{"nft", "iperf3", "tayga"}},
	} {
		if got := names(c.cases, c.subjects); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v of %v need %v, want %v", c.cases, c.subjects, got, c.want)
		}
	}
}
