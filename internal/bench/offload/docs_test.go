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
