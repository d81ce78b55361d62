package timer

import "time"

// Anchored is a time that was read from a file, held by the clock that cannot be
// set: when the wall clock jumps afterwards, it stays as far away as it is now.
func Anchored(t, now time.Time) time.Time {
	if t.IsZero() || now == now.Round(0) { // now has no such clock
		return t
	}
	return now.Add(t.Sub(now))
}
