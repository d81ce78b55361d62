package limit

import "time"

// Policer holds one direction of a session to a rate in bit/s, as
// bpf/blocks/l2tp_rate.h does in the programs: a packet passes if the bucket of
// bytes is not in debt.
type Policer struct {
	bucket  Bucket
	Dropped uint64
}

// Bursts are a tenth of a second, and at least 64 KiB.
const (
	burstTime  = 100 * time.Millisecond
	burstBytes = 65536
)

// Pass reports whether so many bytes may pass at a rate in bit/s; 0: any.
func (p *Policer) Pass(rate uint64, bytes int, now time.Time) bool {
	if rate == 0 {
		return true
	}
	perSecond := float64(rate) / 8
	if !p.bucket.Overdraw(float64(bytes), Rate{PerSecond: perSecond, Burst: max(burstBytes, perSecond*burstTime.Seconds())}, now) {
		p.Dropped++
		return false
	}
	return true
}
