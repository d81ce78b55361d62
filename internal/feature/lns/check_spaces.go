package lns

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
)

// space is a prefix that addresses or prefixes are assigned from, and its key.
type space struct {
	key    string
	prefix netip.Prefix
}

// checkSpaces reports prefixes that overlap, and prefixes that are too small for what
// is assigned from them.
func checkSpaces(c *config.Checker, s *Config) {
	var seen []space
	each := func(key string, list []netip.Prefix, check func(key string, p netip.Prefix)) {
		for i, p := range list {
			one := space{fmt.Sprintf("%s[%d]", key, i), p}
			if !p.IsValid() {
				continue
			}
			check(one.key, p)
			for _, o := range seen {
				if p.Overlaps(o.prefix) {
					c.Error(one.key, fmt.Sprintf("%s overlaps %s", p, o.key), "give each address once")
					break
				}
			}
			seen = append(seen, one)
		}
	}
	sixtyFour := func(key string, p netip.Prefix) {
		if p.Bits() > 64 {
			c.Error(key, fmt.Sprintf("%s has no room for a /64", p), "hosts configure addresses (SLAAC) in a /64 only")
		}
	}
	delegate := func(key string, p netip.Prefix) {
		if p.Bits() > s.DelegateBits {
			c.Error(key, fmt.Sprintf("%s has no room for a /%d", p, s.DelegateBits), "make delegated_len larger or the space wider")
		}
	}
	any := func(string, netip.Prefix) {}
	each("prefixes", s.Prefixes, sixtyFour)
	each("delegate", s.Delegate, delegate)
	each("ipv6_addresses", s.Addresses6, any)
	for i, p := range s.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		each(at+".addresses", p.Addresses, any)
		each(at+".prefixes", p.Prefixes, sixtyFour)
		each(at+".delegate", p.Delegate, delegate)
		each(at+".ipv6_addresses", p.Addresses6, any)
		if len(p.Addresses)+len(p.Prefixes)+len(p.Delegate)+len(p.Addresses6) == 0 && !c.Broken(at+".addresses") {
			c.Error(at, "is empty", `like addresses = ["203.0.113.0/24"]`)
		}
		if p.Only && p.Name == "" {
			c.Error(at+".only_by_name", "the pool has no name", `like name = "homes"`)
		}
	}
}
