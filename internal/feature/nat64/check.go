package nat64

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
)

func checkPrefix(c *config.Checker, s *Config) {
	p := s.Prefix
	if !c.Given("prefix") {
		if !c.Given("mappings") && s.Mode != StatefulMode {
			c.Error("", "has neither prefix nor mappings: no address would have a translation", `add prefix = "64:ff9b::/96" or a prefix of your own`)
		}
		return
	}
	if !p.IsValid() {
		return
	}
	checkTranslationPrefix(c, "prefix", p)
}

// checkTranslationPrefix asks whether IPv4 addresses can stand under p.
func checkTranslationPrefix(c *config.Checker, key string, p netip.Prefix) {
	known := wellKnown()
	why, bad := unusable6(p)
	switch {
	case p.Overlaps(known) && p != known:
		c.Error(key, fmt.Sprintf("%s is not the well-known prefix, but overlaps it", p), fmt.Sprintf("write %q, or a prefix of your own: RFC 6052 section 2.1", known))
	case !legalLength(p.Bits()):
		c.Error(key, fmt.Sprintf("/%d is not a length that an IPv4 address can follow", p.Bits()), "/32, /40, /48, /56, /64 or /96: RFC 6052 section 2.2")
	case bad:
		c.Error(key, fmt.Sprintf("%s is %s", p, why), "use a prefix out of your own network, or 64:ff9b::/96")
	case p.Bits() == 96 && p.Addr().As16()[8] != 0:
		c.Error(key, fmt.Sprintf("bits 64 to 71 of %s are not zero", p), "the fifth of its eight groups must be ff or less: RFC 6052 section 2.2")
	}
}

func checkMappings(c *config.Checker, s *Config) {
	if c.Given("mappings") && len(s.Mappings) == 0 && !c.Given("prefix") {
		c.Error("mappings", "is empty, and there is no prefix: no address would have a translation", "add a mapping or a prefix")
	}
	if len(s.Mappings) == 1 && !c.Given("prefix") && !c.Broken("mappings") {
		c.Warn("mappings", "is one mapping without a prefix: both addresses of a packet need a translation, so its nodes can only talk to each other", "add a prefix for the IPv4 Internet, or map the other side too")
	}
	var sound []int // indices of mappings fit for comparison
	for i, m := range s.Mappings {
		key := mappingKey(i)
		if m.IPv4.IsValid() {
			if why, bad := unusable4(m.IPv4); bad {
				c.Error(key+".ipv4", fmt.Sprintf("%s is %s", m.IPv4, why), "map unicast addresses only")
			}
		}
		if m.IPv6.IsValid() {
			if why, bad := unusable6(m.IPv6); bad {
				c.Error(key+".ipv6", fmt.Sprintf("%s is %s", m.IPv6, why), "map unicast addresses only")
			}
		}
		if !m.IPv4.IsValid() || !m.IPv6.IsValid() || c.Broken(key) {
			continue
		}
		if hosts4, hosts6 := 32-m.IPv4.Bits(), 128-m.IPv6.Bits(); hosts6 < hosts4 {
			c.Error(key+".ipv6", fmt.Sprintf("%s has fewer addresses than %s (RFC 7757 section 3.2)", m.IPv6, m.IPv4),
				fmt.Sprintf("at most /%d for an IPv4 /%d", 128-hosts4, m.IPv4.Bits()))
			continue
		}
		for _, j := range sound {
			if o := s.Mappings[j]; m.IPv4.Overlaps(o.IPv4) || m.IPv6.Overlaps(o.IPv6) {
				checkMappingPair(c, key, m, mappingKey(j), o)
			}
		}
		sound = append(sound, i)
		checkMappingUnderPrefix(c, key, m, s.Prefix)
	}
}

func mappingKey(i int) string { return fmt.Sprintf("mappings[%d]", i) }

// checkMappingPair holds a mapping against an earlier one. One prefix in both
// leaves no longest match; one inside the other is legal, but unless both agree
// the answers to some packets come from another address (RFC 7757 section 5).
func checkMappingPair(c *config.Checker, key string, m Mapping, earlier string, n Mapping) {
	switch {
	case m == n:
		c.Error(key, "is the same as "+earlier, "take one of the two out")
	case m.IPv4 == n.IPv4:
		c.Error(key+".ipv4", fmt.Sprintf("%s is mapped by %s too", m.IPv4, earlier), "an IPv4 prefix can have one mapping")
	case m.IPv6 == n.IPv6:
		c.Error(key+".ipv6", fmt.Sprintf("%s is mapped by %s too", m.IPv6, earlier), "an IPv6 prefix can have one mapping")
	case asymmetric(m, n), asymmetric(n, m):
		c.Warn(key, fmt.Sprintf("overlaps %s without agreeing with it: some packets will be answered from another address (RFC 7757 section 5)", earlier),
			"let the longer prefixes be corresponding parts of the shorter ones, or keep them apart")
	}
}

// asymmetric reports whether inner takes addresses out of one side of outer and
// leaves their translations on the other side to outer, or to another part of
// inner.
func asymmetric(outer, inner Mapping) bool {
	in4, in6 := within(inner.IPv4, outer.IPv4), within(inner.IPv6, outer.IPv6)
	if in4 && in6 && outer.image(inner.IPv4) == inner.IPv6 {
		return false
	}
	return in4 || in6 && outer.reaches(inner.IPv6)
}

// checkMappingUnderPrefix warns of IPv4 addresses that a mapping hides: their
// form under the prefix means, to IPv6 nodes, the mapping's IPv4 addresses.
func checkMappingUnderPrefix(c *config.Checker, key string, m Mapping, prefix netip.Prefix) {
	hidden, ok := TranslatableIn(prefix, m.IPv6)
	if ok && hidden != m.IPv4 {
		c.Warn(key+".ipv6", fmt.Sprintf("%s under the prefix stands for %s, which IPv6 nodes cannot reach now", m.IPv6, hidden), "use IPv6 addresses outside of the prefix")
	}
}

func checkTranslatable(c *config.Checker, s *Config) {
	if len(s.Translatable) > 0 && !c.Given("prefix") {
		c.Error("translatable", "means addresses under prefix, and there is no prefix", "add prefix, or use mappings")
		return
	}
	for i, p := range s.Translatable {
		key := fmt.Sprintf("translatable[%d]", i)
		if !p.IsValid() {
			continue
		}
		if why, bad := unusable4(p); bad {
			c.Error(key, fmt.Sprintf("%s is %s", p, why), "nodes have unicast addresses")
			continue
		}
		checkWellKnown(c, key, p, s)
		for j, q := range s.Translatable[:i] {
			if p.Overlaps(q) {
				c.Error(key, fmt.Sprintf("%s overlaps translatable[%d]", p, j), "keep the wider one")
			}
		}
		for j, m := range s.Mappings {
			if m.IPv4.IsValid() && p.Overlaps(m.IPv4) {
				c.Error(key, fmt.Sprintf("%s overlaps %s of mappings[%d]", p, m.IPv4, j), "an IPv4 address belongs to one IPv6 node")
			}
		}
	}
}

// checkWellKnown checks translatable prefixes against RFC 6052 section 3.1: the
// well-known prefix must not embed IPv4 addresses that are not global, and should not
// form the addresses of nodes, because no network can announce a part of it.
func checkWellKnown(c *config.Checker, key string, p netip.Prefix, s *Config) {
	if s.Prefix != wellKnown() {
		return
	}
	if why, bad := nonGlobal(p); bad {
		c.Error(key, fmt.Sprintf("%s is %s and must not be under 64:ff9b::/96 (RFC 6052 section 3.1)", p, why), "use an IPv6 prefix of your own")
		return
	}
	c.Warn(key, "nodes should not have addresses under 64:ff9b::/96, which no router can announce (RFC 6052 section 3.1)", "use an IPv6 prefix of your own")
}
