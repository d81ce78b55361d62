package timer_test

import (
	"testing"
	"time"

	"weft/internal/timer"
	"weft/internal/timer/timertest"
)

func TestATimeOutOfAFileIsNotMovedByTheWallClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Now()
	kept := now.Round(0).Add(time.Hour)
	for _, jump := range []time.Duration{10 * year, -10 * year} {
		later := timertest.Jumped(now, jump)
		if left := timer.Anchored(kept, now).Sub(later); left != time.Hour {
			t.Errorf("after a jump of %s %s are left of an hour", jump, left)
		}
		if left := kept.Sub(later); left == time.Hour {
			t.Error("the clock has not jumped")
		}
	}
	if got := timer.Anchored(time.Time{}, now); !got.IsZero() {
		t.Errorf("no time is %s", got)
	}
	if got := timer.Anchored(kept, now.Round(0)); got != kept {
		t.Errorf("without a monotonic clock it is %s", got)
	}
}
