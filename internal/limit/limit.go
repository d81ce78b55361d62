// Package limit is a token bucket. It has no clock: the time is passed in.
package limit

import "time"

// Rate is how many tokens come in a second, and how many a full bucket has.
type Rate struct {
	PerSecond, Burst float64
}

// Bucket is a token bucket, full at first. It is not safe for concurrent use.
type Bucket struct {
	rate  Rate
	spent float64 // what it has less than when it is full
	at    time.Time
}

// Take takes n tokens if the bucket has them.
func (b *Bucket) Take(n float64, r Rate, now time.Time) bool {
	return b.take(n, n, r, now)
}

// Overdraw takes n tokens unless the bucket is in debt, so that a packet larger
// than what is left passes and later ones wait for it.
func (b *Bucket) Overdraw(n float64, r Rate, now time.Time) bool {
	return b.take(n, 0, r, now)
}

func (b *Bucket) take(n, least float64, r Rate, now time.Time) bool {
	if passed := now.Sub(b.at); passed > 0 {
		b.spent = max(0, b.spent-passed.Seconds()*b.rate.PerSecond)
	}
	b.at = now
	if r != b.rate {
		// a lower rate would be long in paying what was spent at a higher one
		b.rate, b.spent = r, min(b.spent, r.Burst)
	}
	if r.Burst-b.spent < least {
		return false
	}
	b.spent += n
	return true
}
