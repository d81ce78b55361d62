package dns64

import (
	"net/netip"
	"sync"
	"time"

	"weft/internal/limit"
)

// limiter is a token bucket for each client, of those who asked last.
type limiter struct {
	mu      sync.Mutex
	rate    int // a second; 0: no limit
	buckets *lru[netip.Prefix, *limit.Bucket]
}

// clientsMax is how many clients are watched at once.
const clientsMax = 8192

func newLimiter(rate int) *limiter {
	return &limiter{rate: rate, buckets: newLRU[netip.Prefix, *limit.Bucket](clientsMax)}
}

func (l *limiter) set(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

// allow takes a token of the client's: one IPv4 address, or one IPv6 /64,
// whose addresses a single host may have all.
func (l *limiter) allow(client netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return true
	}
	bits := client.BitLen()
	if client.Is6() && !client.IsLinkLocalUnicast() {
		bits = 64
	}
	key, err := client.WithZone("").Prefix(bits)
	if err != nil {
		return false
	}
	b, ok := l.buckets.get(key)
	if !ok {
		b = &limit.Bucket{}
		l.buckets.put(key, b)
	}
	return b.Take(1, limit.Rate{PerSecond: float64(l.rate), Burst: float64(2 * l.rate)}, now)
}
