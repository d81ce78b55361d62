package sessionsync_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/nat64"
	"weft/internal/feature/sessionsync"
)

func sections() []config.Section {
	return append(config.CoreSections(), nat64.Section(), sessionsync.Section())
}

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 20 {
		t.Errorf("%d files of mistakes, want 20 at least", n)
	}
}
