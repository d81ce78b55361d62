package guard_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/guard"
)

func sections() []config.Section { return append(config.CoreSections(), guard.Sections()...) }

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), guard.Plan); n < 6 {
		t.Errorf("%d files, want 6 at least", n)
	}
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 10 {
		t.Errorf("%d files of mistakes, want 10 at least", n)
	}
}
