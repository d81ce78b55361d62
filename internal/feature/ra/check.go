package ra

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/internal/config"
)

func check(c *config.Checker, name string, s *Config) {
	checkInterface(c, name, s)
	if s.Lifetime != 0 && s.Lifetime < s.MaxInterval {
		c.Error("lifetime", fmt.Sprintf("%s is shorter than max_interval, %s: hosts would lose their router in between", s.Lifetime, s.MaxInterval), `make it three times max_interval, or "0s" if it is no default router (RFC 4861 section 6.2.1)`)
	}
	if s.Preferred > s.Valid {
		c.Error("preferred_lifetime", fmt.Sprintf("%s is longer than valid_lifetime, %s", s.Preferred, s.Valid), "RFC 4861 section 4.6.2")
	}
	if s.MTU != 0 && s.MTU < 1280 {
		c.Error("mtu", fmt.Sprintf("%d is too small: IPv6 needs 1280 (RFC 8200 section 5)", s.MTU), "from 1280 to 65535, or 0 to say nothing")
	}
	if !c.File().Router().Forwarding && s.Lifetime != 0 {
		c.Warn("lifetime", "it offers itself as a default router, and router.forwarding is false: does anything else make this host forward?", `forwarding = true, or lifetime = "0s"`)
	}
	checkPrefixes(c, s)
	checkDNS(c, s)
	for i, p := range s.PREF64 {
		checkPREF64(c, fmt.Sprintf("pref64[%d]", i), p)
	}
	c.Portal("captive_portal", s.Portal)
	checkDHCP(c, s)
	checkOthers(c, name, s)
}

func checkInterface(c *config.Checker, name string, s *Config) {
	known := c.File().Names("interface")
	if slices.Contains(known, s.Interface) {
		return
	}
	if c.Given("interface") {
		c.Error("interface", fmt.Sprintf("there is no [interface.%s]", s.Interface), config.Suggest(s.Interface, known))
		return
	}
	c.Error("", fmt.Sprintf("there is no [interface.%s]", s.Interface), fmt.Sprintf("call the section like the interface, or add interface = %q", first(known)))
}

func first(names []string) string {
	if len(names) == 0 {
		return "lan"
	}
	return names[0]
}

func checkPrefixes(c *config.Checker, s *Config) {
	for i, p := range s.Prefixes {
		key := fmt.Sprintf("prefixes[%d]", i)
		if !p.Prefix.IsValid() {
			continue
		}
		switch {
		case p.Prefix.Addr().IsLinkLocalUnicast(), p.Prefix.Addr().IsMulticast():
			c.Error(key+".prefix", fmt.Sprintf("%s is not for a link's hosts", p.Prefix), "a prefix of your own, or fd00::/8")
		case p.Prefix.Bits() != 64 && !p.NotAutonomous:
			c.Error(key+".prefix", fmt.Sprintf("hosts make addresses only of a /64, this is a /%d (RFC 4862, RFC 7421)", p.Prefix.Bits()), "a /64, or no_autoconfig = true")
		}
		if p.Valid != 0 && p.Preferred > p.Valid {
			c.Error(key+".preferred_lifetime", fmt.Sprintf("%s is longer than valid_lifetime, %s", p.Preferred, p.Valid), "RFC 4861 section 4.6.2")
		}
		for j, q := range s.Prefixes[:i] {
			if q.Prefix == p.Prefix {
				c.Error(key+".prefix", fmt.Sprintf("%s is also prefixes[%d]", p.Prefix, j), "take one of the two out")
			}
		}
	}
}

func checkDNS(c *config.Checker, s *Config) {
	for i, a := range s.DNS {
		if a.IsValid() && (a.IsMulticast() || a.IsUnspecified() || a.IsLoopback()) {
			c.Error(fmt.Sprintf("dns[%d]", i), fmt.Sprintf("hosts cannot ask %s", a), "an address that they reach")
		}
	}
	for i, name := range s.Search {
		if !domain(name) {
			c.Error(fmt.Sprintf("search[%d]", i), fmt.Sprintf("%q is not a domain", name), `like "example.net"`)
		}
	}
}

func domain(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) {
			return false
		}
	}
	return true
}

func checkPREF64(c *config.Checker, key string, p netip.Prefix) {
	if !p.IsValid() {
		return
	}
	switch p.Bits() {
	case 32, 40, 48, 56, 64, 96:
	default:
		c.Error(key, fmt.Sprintf("/%d is not a length that an IPv4 address can follow", p.Bits()), "/32, /40, /48, /56, /64 or /96: RFC 8781 section 4")
	}
}

func checkDHCP(c *config.Checker, s *Config) {
	if s.DHCPv6 != DHCPStateful {
		for _, key := range []string{"pool", "delegate"} {
			if c.Given(key) {
				c.Error(key, "is for stateful DHCPv6 only", `add dhcpv6 = "stateful"`)
			}
		}
		return
	}
	if len(s.Pool) == 0 && len(s.Delegate) == 0 {
		c.Error("dhcpv6", "is stateful, and there is nothing to give out", "add pool or delegate")
	}
	if s.Valid < time.Minute {
		c.Error("valid_lifetime", fmt.Sprintf("%s is too short for leases", s.Valid), "at least a minute")
	}
	if s.Leases == "" {
		c.Error("leases", "names no file", `like "/var/lib/weft/lan.leases"`)
	}
	for i, p := range s.Delegate {
		key := fmt.Sprintf("delegate[%d]", i)
		switch {
		case !p.IsValid():
		case p.Bits() > s.DelegateBits:
			c.Error(key, fmt.Sprintf("%s has no room for a /%d", p, s.DelegateBits), "a shorter prefix, or more delegated_len")
		default:
			overlapsInterface(c, key, p)
			overlapsList(c, key, p, s.Delegate[:i], "delegate")
		}
	}
	for i, p := range s.Pool {
		if p.IsValid() {
			overlapsList(c, fmt.Sprintf("pool[%d]", i), p, s.Pool[:i], "pool")
		}
	}
}

// overlapsInterface refuses to delegate what is on a link of the router's.
func overlapsInterface(c *config.Checker, key string, p netip.Prefix) {
	for _, name := range c.File().Names("interface") {
		for _, a := range c.File().Interface(name).Addresses {
			if a.IsValid() && a.Masked().Overlaps(p) {
				c.Error(key, fmt.Sprintf("%s holds %s of interface.%s", p, a.Masked(), name), "delegate space that no link has")
				return
			}
		}
	}
}

func overlapsList(c *config.Checker, key string, p netip.Prefix, list []netip.Prefix, of string) {
	for i, q := range list {
		if q.IsValid() && q.Overlaps(p) {
			c.Error(key, fmt.Sprintf("%s overlaps %s, which is %s[%d]", p, q, of, i), "keep the wider one")
			return
		}
	}
}

// checkOthers compares with the sections that stand before this one.
func checkOthers(c *config.Checker, name string, s *Config) {
	for _, other := range c.File().Names("ra") {
		if other == name {
			return
		}
		o := From(c.File(), other)
		if o.Interface == s.Interface {
			key := "interface"
			if !c.Given(key) {
				key = ""
			}
			c.Error(key, fmt.Sprintf("ra.%s speaks on interface.%s already", other, s.Interface), "keep one section for each interface")
		}
		if o.DHCPv6 == DHCPStateful && s.DHCPv6 == DHCPStateful && o.Leases == s.Leases {
			c.Error("leases", fmt.Sprintf("ra.%s keeps its leases in %s already", other, s.Leases), "give each section a file of its own")
		}
		for i, p := range s.Delegate {
			if p.IsValid() {
				overlapsList(c, fmt.Sprintf("delegate[%d]", i), p, o.Delegate, "ra."+other+".delegate")
			}
		}
	}
}
