package dnsio

import (
	"net/netip"
	"sync"
)

// shares bounds how much of something there is at once, in all and for each client
// and IPv6 /64.
type shares struct {
	most, host, subnet int

	mu  sync.Mutex
	all int
	by  map[netip.Prefix]int // addresses and /64s that have any
}

// subnetOf is the /64 of an IPv6 address; not valid for others.
func subnetOf(client netip.Addr) netip.Prefix {
	if !client.Is6() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(client.WithZone(""), 64).Masked()
}

func hostOf(client netip.Addr) netip.Prefix {
	return netip.PrefixFrom(client.WithZone(""), client.BitLen())
}

// take takes one for a client; false: there is none left for it.
func (s *shares) take(client netip.Addr) bool {
	host, subnet := hostOf(client), subnetOf(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.by[host] >= s.host || subnet.IsValid() && s.by[subnet] >= s.subnet {
		return false
	}
	if s.by == nil {
		s.by = map[netip.Prefix]int{}
	}
	s.all++
	s.by[host]++
	if subnet.IsValid() {
		s.by[subnet]++
	}
	return true
}

// release gives back what a client has taken.
func (s *shares) release(client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	for _, p := range []netip.Prefix{hostOf(client), subnetOf(client)} {
		if s.by[p]--; s.by[p] <= 0 {
			delete(s.by, p)
		}
	}
}
