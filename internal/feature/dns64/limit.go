package dns64

import (
	"net/netip"
	"sync"
	"time"

	"weft/internal/limit"
)

// limiter is a token bucket for each client, and one for each IPv6 /64, of those
// who asked last.
type limiter struct {
	mu      sync.Mutex
	rate    int // a second and address; 0: no limit
	hosts   *lru[netip.Addr, *limit.Bucket]
	subnets *lru[subnet, *limit.Bucket]
}

// subnet is an IPv6 /64. That of link-local addresses is another one on each
// interface.
type subnet struct {
	prefix netip.Prefix
	zone   string
}

const (
	// clientsMax is how many clients, and how many subnets, are watched at once.
	clientsMax = 8192
	// subnetShare is how often the rate of one address a /64 has: a LAN is a /64, and
	// a single host may have all its addresses.
	subnetShare = 10
)

func newLimiter(rate int) *limiter {
	return &limiter{rate: rate, hosts: newLRU[netip.Addr, *limit.Bucket](clientsMax), subnets: newLRU[subnet, *limit.Bucket](clientsMax)}
}

func (l *limiter) set(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

// allow takes a token of the client's, and one of its /64's. What one address asks
// beyond its rate takes nothing from its neighbours.
func (l *limiter) allow(client netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return true
	}
	if !take(l.hosts, client, l.rate, now) {
		return false
	}
	if client.Is4() {
		return true
	}
	of := subnet{prefix: netip.PrefixFrom(client.WithZone(""), 64).Masked()}
	if client.IsLinkLocalUnicast() {
		of.zone = client.Zone()
	}
	return take(l.subnets, of, subnetShare*l.rate, now)
}

// take takes a token out of the bucket of k.
func take[K comparable](buckets *lru[K, *limit.Bucket], k K, rate int, now time.Time) bool {
	b, ok := buckets.get(k)
	if !ok {
		b = &limit.Bucket{}
		buckets.put(k, b)
	}
	return b.Take(1, limit.Rate{PerSecond: float64(rate), Burst: float64(2 * rate)}, now)
}
