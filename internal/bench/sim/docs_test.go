package sim

import (
	"testing"

	"weft/internal/bench/benchtest"
	"weft/schedule"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	benchtest.Published(t, Bench(), 3+len(schedule.Routers())+len(schedule.Orders()))
}
