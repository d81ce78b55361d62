package bridge_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/bridge"
)

func sections() []config.Section { return append(config.CoreSections(), bridge.Section()) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), bridge.Plan); n < 6 {
		t.Errorf("%d files, want 6 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 8 {
		t.Errorf("%d files of mistakes, want 8 at least", n)
	}
}
