package lns_test

import (
	"testing"

	"weft/internal/config/configtest"
)

func TestEachMistakeGivesItsLine(t *testing.T) {
	if n := configtest.Bad(t, "testdata/bad", sections()); n < 6 {
		t.Errorf("%d files of mistakes, want 6 at least", n)
	}
}
