package access_test

import (
	"testing"

	"weft/internal/config"
	"weft/internal/config/configtest"
	"weft/internal/feature/access"
)

func TestEachMistakeGivesItsLine(t *testing.T) {
	sections := append(config.CoreSections(), access.Section(), access.ClientSection())
	if n := configtest.Bad(t, "testdata/bad", sections); n < 6 {
		t.Errorf("%d files of mistakes, want 6 at least", n)
	}
}
