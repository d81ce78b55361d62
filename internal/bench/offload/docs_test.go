package offload

import (
	"testing"

	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	b := Bench(DefaultSeconds)
	all := benchtest.All(t, b)
	for _, c := range []string{"pps64-nat-mixed", "cpu-nat-200", "cpu-nat-paced"} {
		if !benchtest.Has(t, b, c) {
			all -= 4 // the published run is older than the case
		}
	}
	benchtest.Published(t, b, all)
}

func TestThePageTellsOfEachCaseAndSubject(t *testing.T) {
	benchtest.Page(t, Bench(DefaultSeconds))
}

func TestThePageTellsOfEachCaseAndSubjectInTheGuest(t *testing.T) {
	b := GuestBench()
	b.Name, b.Bars = "offload", Bench(1).Bars // whose page it is on
	benchtest.Page(t, b)
}
