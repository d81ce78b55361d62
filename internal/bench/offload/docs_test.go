package offload

import (
	"testing"

	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	b := Bench(DefaultSeconds)
	benchtest.Published(t, b, benchtest.All(t, b))
}

func TestThePageTellsOfEachCaseAndSubject(t *testing.T) {
	benchtest.Page(t, Bench(DefaultSeconds))
}

func TestThePageTellsOfEachCaseAndSubjectInTheGuest(t *testing.T) {
	b := GuestBench()
	b.Name, b.Bars = "offload", Bench(1).Bars // whose page it is on
	benchtest.Page(t, b)
}
