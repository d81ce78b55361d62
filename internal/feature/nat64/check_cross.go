package nat64

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
)

// claim is IPv4 space that the translator answers for, and the key it is from.
type claim struct {
	key   string
	block netip.Prefix
}

func (s *Config) claims4(f *config.File) []claim {
	var all []claim
	for i, m := range s.Mappings {
		if m.IPv4.IsValid() {
			all = append(all, claim{fmt.Sprintf("mappings[%d].ipv4", i), m.IPv4})
		}
	}
	for i, p := range s.Pools {
		if s.Mode == StatefulMode && p.IPv4.IsValid() {
			all = append(all, claim{fmt.Sprintf("pools[%d].ipv4", i), p.IPv4})
		}
	}
	for i, p := range s.Nodes(f) {
		key := "prefix" // which the default is derived from
		if len(s.Translatable) > 0 {
			key = fmt.Sprintf("translatable[%d]", i)
		}
		if p.IsValid() {
			all = append(all, claim{key, p})
		}
	}
	return all
}

func (s *Config) claims6() []claim {
	var all []claim
	if s.Prefix.IsValid() {
		all = append(all, claim{"prefix", s.Prefix})
	}
	for i, p := range s.Prefixes {
		if s.Mode == StatefulMode && p.IsValid() {
			all = append(all, claim{fmt.Sprintf("prefixes[%d]", i), p})
		}
	}
	for i, m := range s.Mappings {
		if m.IPv6.IsValid() {
			all = append(all, claim{fmt.Sprintf("mappings[%d].ipv6", i), m.IPv6})
		}
	}
	return all
}

// checkLocal refuses IPv4 addresses that the router has itself: the kernel
// would take their packets before they are translated.
func checkLocal(c *config.Checker, s *Config) {
	for _, mine := range s.claims4(c.File()) {
		for _, name := range c.File().Names("interface") {
			for _, a := range c.File().Interface(name).Addresses {
				if a.IsValid() && mine.block.Contains(a.Addr()) {
					c.Error(mine.key, fmt.Sprintf("%s holds %s, the router's own address on interface.%s", mine.block, a.Addr(), name), "translate addresses that no interface has")
				}
			}
		}
	}
}

// checkNodes asks whether any IPv6 node has an IPv4 address, which stateless
// translation needs, and whether a subnet got under the prefix by accident.
func checkNodes(c *config.Checker, s *Config) {
	if !s.Prefix.IsValid() || c.Given("translatable") || c.Broken("prefix") || c.Broken("interfaces") {
		return
	}
	for i, name := range s.Interfaces {
		face := c.File().Interface(name)
		if face == nil {
			return
		}
		for _, a := range face.Addresses {
			if !a.IsValid() {
				return
			}
			if _, ok := TranslatableIn(s.Prefix, a); !ok && within(a.Masked(), s.Prefix) {
				c.Warn(fmt.Sprintf("interfaces[%d]", i), fmt.Sprintf("the subnet %s lies under the prefix %s, yet its nodes have no IPv4 addresses by RFC 6052 section 2.2", a.Masked(), s.Prefix),
					"keep the prefix apart from your subnets, or set translatable")
				return
			}
		}
	}
	if len(s.Mappings) == 0 && !c.Broken("mappings") && len(s.Nodes(c.File())) == 0 {
		c.Error("", "no IPv6 node would have an IPv4 address, which stateless translation needs for each of them", "add mappings or translatable, or give an interface a subnet under the prefix")
	}
}

// checkOthers compares with the translators that stand before this one.
func checkOthers(c *config.Checker, name string, s *Config) {
	for _, other := range c.File().Names("nat64") {
		if other == name {
			return
		}
		o := From(c.File(), other)
		compare(c, s.claims4(c.File()), o.claims4(c.File()), other)
		compare(c, s.claims6(), o.claims6(), other)
	}
}

func compare(c *config.Checker, mine, theirs []claim, other string) {
	for _, m := range mine {
		for _, t := range theirs {
			if m.block.Overlaps(t.block) {
				c.Error(m.key, fmt.Sprintf("%s overlaps %s, which is nat64.%s.%s", m.block, t.block, other, t.key), "let each address have one translator")
				break
			}
		}
	}
}
