package route_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/route"
)

func sections() []config.Section { return append(config.CoreSections(), route.Section()) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), route.Plan); n < 7 {
		t.Errorf("%d files, want 7 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 8 {
		t.Errorf("%d files of mistakes, want 8 at least", n)
	}
}
