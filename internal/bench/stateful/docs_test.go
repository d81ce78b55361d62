package stateful

import (
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	b := Bench(bench.DefaultSeconds)
	benchtest.Published(t, b, len(b.Cases)*4-4)
}
