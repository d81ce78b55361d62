package lookup

import (
	"testing"

	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	benchtest.Published(t, Bench(), benchtest.All(t, Bench()))
}
