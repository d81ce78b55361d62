package pseudowire_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/pseudowire"
)

func sections() []config.Section { return append(config.CoreSections(), pseudowire.Section()) }

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 22 {
		t.Errorf("%d files of mistakes, want 22 at least", n)
	}
}

func TestPlans(t *testing.T) {
	if n := configtest.Golden(t, "testdata/plan", sections(), pseudowire.Plan); n < 5 {
		t.Errorf("%d files, want 5 at least", n)
	}
}
