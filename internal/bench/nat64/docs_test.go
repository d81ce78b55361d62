package nat64

import (
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	benchtest.Published(t, Bench(bench.DefaultSeconds), 8*7+2*4)
}
