package config_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
)

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", config.CoreSections()); n < 45 {
		t.Errorf("%d files of mistakes, want 45 at least", n)
	}
}
