package nat64

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// claims are the addresses for which translators answer. Those of nodes that
// have them without a translator are none: they are on a link.
func claims(f *config.File) (list []state.Claim) {
	for _, name := range f.Names("nat64") {
		c, section := From(f, name), "nat64."+name
		add := func(key string, p netip.Prefix, kind state.ClaimKind) {
			path := section + "." + key
			list = append(list, state.Claim{Prefix: p, For: kind, Section: section, Path: path, Pos: f.Position(path)})
		}
		if c.Mode == CLAT {
			if c.CLATPrefix.IsValid() {
				add("clat_prefix", c.CLATPrefix, state.ClaimTranslated)
			}
			for _, p := range halves() {
				add("mode", p, state.ClaimRouted)
			}
			continue
		}
		for _, own := range c.claims4(f) {
			if !c.isNodes4(own.key) {
				add(own.key, own.block, state.ClaimTranslated)
			}
		}
		if c.Mode == StatefulMode { // nodes of a stateless one may live under its prefix
			for _, own := range c.claims6() {
				add(own.key, own.block, state.ClaimTranslated)
			}
		}
	}
	return list
}

// isNodes4 reports whether a key of claims4 is a mapping of IPv4 nodes.
func (c *Config) isNodes4(key string) bool {
	for i, m := range c.Mappings {
		if key == fmt.Sprintf("mappings[%d].ipv4", i) {
			return m.ofIPv4Nodes()
		}
	}
	return false
}

// withoutSubnet returns which CLAT has no IPv6 addresses for its IPv4 nodes: with
// one address and no subnet there is nothing to translate to (RFC 6877 section
// 6.3).
func withoutSubnet(f *config.File, facts state.Facts) (problems []state.Problem) {
	for _, name := range f.Names("nat64") {
		c := From(f, name)
		if c.Mode != CLAT || c.CLATPrefix.IsValid() || derived(f, facts, c).IsValid() {
			continue
		}
		path := "nat64." + name
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.Degraded,
			What:   "no interface of it has an IPv6 subnet of length 64: IPv4 nodes have no IPv6 addresses, and nothing is translated",
			Remedy: "get a /64 on the uplink (SLAAC), or a delegated prefix, or set clat_prefix to a prefix that is routed to this router",
		})
	}
	return problems
}
