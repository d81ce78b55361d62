package host_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/host"
)

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", config.CoreSections(), host.Plan); n < 4 {
		t.Errorf("%d files, want 4 at least", n)
	}
}
