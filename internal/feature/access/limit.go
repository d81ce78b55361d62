package access

import "time"

// limiter holds a direction of a session to its rate in the slow path, as
// bpf/blocks/l2tp_rate.h does in the programs: what has passed would have
// passed at the rate by due.
type limiter struct {
	due     time.Time
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
	takes := func(n int) time.Duration { return time.Duration(float64(n) * 8e9 / float64(rate)) }
	start := now
	if l.due.After(now) {
		start = l.due
	}
	if start.Sub(now) > max(takes(burstBytes), burstTime) {
		l.dropped++
		return false
	}
	l.due = start.Add(takes(bytes))
	return true
}
