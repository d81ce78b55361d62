package lns

// This test builds the topologies for a few sessions, starts every server, and
// measures briefly. It does not check the figures; it checks that sessions come up
// and that packets arrive intact.

import (
	"slices"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestEverySubjectCanBeMeasured(t *testing.T) {
	weft := benchtest.Weft(t, Needs(nil, nil)...)
	m, err := Open(t.Context(), Options{Weft: weft, Seconds: 0.1, Sessions: 8})
	if err != nil {
		t.Fatal(err)
	}
	benchtest.Once(t, Bench(0.1), m, bench.Options{Cases: []string{
		"setup-1000", "pps64-up-1000", "pps1400-down-1000", "tcp1-up-1000", "cpu1-down-1000", "memory-1000",
	}}, "memory-1000 l2tpns", "memory-1000 weft", "memory-1000 weft-tables")
}

func TestOnlyTheProgramsThatAreUsedAreNeeded(t *testing.T) {
	for _, c := range []struct {
		cases, subjects, want []string
	}{
		{nil, nil, []string{"iperf3", "l2tpns"}},
		{[]string{"pps64-up-1"}, []string{"weft"}, nil},
		{[]string{"cpu1-up-1"}, []string{"weft-tables"}, []string{"iperf3"}},
		{[]string{"setup-1"}, []string{"l2tpns"}, []string{"l2tpns"}},
	} {
		var got []string
		for _, p := range Needs(c.cases, c.subjects) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v of %v need %v, want %v", c.cases, c.subjects, got, c.want)
		}
	}
}
