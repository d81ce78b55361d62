package nat64

import "sync/atomic"

// limiter is a token bucket for ICMP errors: so many a second, bursts of twice
// as many.
type limiter struct {
	now       func() int64 // nanoseconds
	perSecond atomic.Int64
	last      int64
	tokens    float64
	off       bool
}

// newLimiter gives a limiter that allows nothing until perSecond is set.
func newLimiter(now func() int64) *limiter {
	return &limiter{now: now, last: now() - 2e9}
}

// allow is called by one goroutine, the one that serves the device.
func (l *limiter) allow() bool {
	if l.off {
		return true
	}
	now, rate := l.now(), float64(l.perSecond.Load())
	l.tokens = min(2*rate, l.tokens+float64(now-l.last)/1e9*rate)
	l.last = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
