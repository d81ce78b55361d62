package nat64

import (
	"testing"

	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	benchtest.Published(t, Bench(DefaultSeconds), 8*7+2*4)
}
