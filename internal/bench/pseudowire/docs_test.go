package pseudowire

import (
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/benchtest"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	b := Bench(bench.DefaultSeconds)
	all := benchtest.All(t, b)
	if !benchtest.Has(t, b, guestUp) {
		all -= 2 * len(guests()) // of a machine that had none
	}
	benchtest.Published(t, b, all)
}

func TestThePageNamesWhatIsMeasuredAndTheBars(t *testing.T) {
	benchtest.Page(t, Bench(bench.DefaultSeconds))
}
