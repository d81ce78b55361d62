package nat64

import (
	"sync/atomic"
	"time"

	"weft/internal/limit"
)

// limiter bounds ICMP errors: so many a second, bursts of twice as many.
type limiter struct {
	now       func() int64 // nanoseconds
	perSecond atomic.Int64 // at first 0: none
	bucket    limit.Bucket
	off       bool
}

// allow is called by one goroutine, the one that serves the device.
func (l *limiter) allow() bool {
	rate := float64(l.perSecond.Load())
	return l.off || l.bucket.Take(1, limit.Rate{PerSecond: rate, Burst: 2 * rate}, time.Unix(0, l.now()))
}
