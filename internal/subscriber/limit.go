package subscriber

import (
	"time"

	"weft/internal/limit"
)

// limiter holds a direction of a session to its rate in the slow path, as
// bpf/blocks/l2tp_rate.h does in the programs: a packet passes if the bucket of
// bytes is not in debt.
type limiter struct {
	bucket  limit.Bucket
	dropped uint64
}

// Bursts are a tenth of a second, and at least 64 KiB.
const (
	burstTime  = 100 * time.Millisecond
	burstBytes = 65536
)

// pass tells whether so many bytes may pass at a rate in bit/s; 0: any.
func (l *limiter) pass(rate uint64, bytes int, now time.Time) bool {
	if rate == 0 {
		return true
	}
	perSecond := float64(rate) / 8
	if !l.bucket.Overdraw(float64(bytes), limit.Rate{PerSecond: perSecond, Burst: max(burstBytes, perSecond*burstTime.Seconds())}, now) {
		l.dropped++
		return false
	}
	return true
}
