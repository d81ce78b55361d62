package simulate

import "math/bits"

// Histogram counts times in buckets about 1.6% wide, so that its memory does not
// grow with what it counts.
type Histogram struct {
	counts []uint64
	n      uint64
	sum    float64 // nanoseconds
	max    Time
}

// halfSteps is the number of buckets of each doubling; values below twice as
// many nanoseconds have a bucket of their own.
const halfSteps = 64

func bucket(t Time) int {
	v := uint64(max(t, 0))
	shift := max(0, bits.Len64(v)-7)
	return shift*halfSteps + int(v>>shift)
}

// middle returns the value that stands for a bucket.
func middle(b int) Time {
	shift := max(0, b/halfSteps-1)
	v := Time(b-shift*halfSteps) << shift
	return v + Time(1)<<shift/2
}

func (h *Histogram) add(t Time) {
	b := bucket(t)
	if b >= len(h.counts) {
		h.counts = append(h.counts, make([]uint64, b+1-len(h.counts))...)
	}
	h.counts[b]++
	h.n++
	h.sum += float64(t)
	h.max = max(h.max, t)
}

// Quantile returns the time that a share q (0 to 1) of the values do not exceed,
// 0 without values.
func (h *Histogram) Quantile(q float64) Time {
	rank := uint64(q * float64(h.n))
	var seen uint64
	for b, c := range h.counts {
		if seen += c; c > 0 && seen > rank {
			return min(middle(b), h.max)
		}
	}
	return h.max
}

// Mean returns the mean, 0 without values.
func (h *Histogram) Mean() Time {
	if h.n == 0 {
		return 0
	}
	return Time(h.sum / float64(h.n))
}

func (h *Histogram) summary() Times {
	return Times{
		Count: h.n, Mean: h.Mean(), Max: h.max,
		Median: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99),
	}
}
