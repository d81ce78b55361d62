// Package timertest has the wall clock jump in tests.
package timertest

import (
	"time"
	"unsafe"
)

// secondsAt is where time.Time has the seconds of its wall clock, if it has the
// monotonic clock too.
const secondsAt = 30

// Jumped returns what time.Now would give if the wall clock had been set by d,
// whole seconds, forward or back: the monotonic clock has not moved. now is a result
// of time.Now.
func Jumped(now time.Time, d time.Duration) time.Time {
	jumped := now
	*(*uint64)(unsafe.Pointer(&jumped)) += uint64(int64(d/time.Second)) << secondsAt
	if !jumped.Round(0).Equal(now.Round(0).Add(d)) || jumped.Sub(now) != 0 {
		panic("time.Time has another form than this test knows")
	}
	return jumped
}
