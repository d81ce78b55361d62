package stateful

import (
	"testing"

	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	b := Bench(DefaultSeconds)
	benchtest.Published(t, b, len(b.Cases)*4-4)
}
