package nat64

import (
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
	"weft/internal/translate"
)

// ofIPv4Nodes reports whether the nodes of m are IPv4 nodes. Unless it says so
// they are IPv6 nodes, as in a data centre whose servers have no IPv4
// (RFC 7755).
func (m Mapping) ofIPv4Nodes() bool { return m.Node == NodeIPv4 }

// rules returns the address rules of both directions.
func (c *Config) rules(f *config.File, id int) []state.Object {
	var list []state.Object
	add := func(r state.Rule) { r.Translator = id; list = append(list, r) }
	uOctet := c.Prefix.IsValid() && c.Prefix.Bits() <= 64
	for i, p := range c.prefixes() {
		if c.Mode == CLAT {
			break
		}
		add(state.Rule{From: p, To: all4(), Kind: state.RulePrefix, UOctet: p.Bits() <= 64})
		if p == wellKnown() && i > 0 { // RFC 6052 section 3.1
			for _, block := range private4() {
				add(state.Rule{From: embedPrefix(p, block.block), To: block.block, Kind: state.RuleRefused})
			}
		}
	}
	for _, p := range c.pools() {
		add(state.Rule{From: p, To: c.Prefix, Kind: state.RulePool, UOctet: uOctet})
	}
	for _, node := range c.Nodes(f) {
		inside := embedPrefix(c.Prefix, node)
		add(state.Rule{From: inside, To: node, Kind: state.RuleNode, UOctet: uOctet})
		add(state.Rule{From: node, To: inside, Kind: state.RuleNode, UOctet: uOctet})
	}
	if c.Prefix == wellKnown() && c.Mode != CLAT {
		for _, block := range private4() {
			inside := embedPrefix(c.Prefix, block.block)
			add(state.Rule{From: inside, To: block.block, Kind: state.RuleRefused})
			add(state.Rule{From: block.block, To: inside, Kind: state.RuleRefused})
		}
	}
	for _, m := range c.Mappings {
		kind := state.RuleMapping
		if m.ofIPv4Nodes() {
			kind = state.RuleMapping4
		}
		add(state.Rule{From: m.IPv6, To: m.IPv4, Kind: kind})
		add(state.Rule{From: m.IPv4, To: m.IPv6, Kind: kind})
	}
	return list
}

// embedPrefix returns the IPv6 prefix of the nodes in an IPv4 prefix (RFC 6052
// section 2.2). It is eight bits longer where the octet u lies in between.
func embedPrefix(prefix, node netip.Prefix) netip.Prefix {
	bits := prefix.Bits() + node.Bits()
	if prefix.Bits() <= 64 && bits > 64 || prefix.Bits() == 64 {
		bits += 8
	}
	return netip.PrefixFrom(translate.Embed(prefix, node.Addr()), bits).Masked()
}

// prefixes4 returns the IPv4 prefixes that lead to the translator: what stands
// for IPv6 nodes, and what sources errors.
func (c *Config) prefixes4(f *config.File) []netip.Prefix {
	list := append(c.Nodes(f), c.pools()...)
	if c.Mode == CLAT && len(list) > 0 {
		list = halves()
	}
	for _, m := range c.Mappings {
		if !m.ofIPv4Nodes() {
			list = append(list, m.IPv4)
		}
	}
	for _, a := range c.ErrorSource {
		list = append(list, netip.PrefixFrom(a, 32))
	}
	return list
}

// prefixes6 returns the IPv6 prefixes that stand for IPv4 nodes.
func (c *Config) prefixes6() []netip.Prefix {
	var list []netip.Prefix
	if c.Mode != CLAT {
		list = append(list, c.prefixes()...)
	}
	for _, m := range c.Mappings {
		if m.ofIPv4Nodes() {
			list = append(list, m.IPv6)
		}
	}
	return list
}
