package nat64

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// CLAT is the client side of 464XLAT (RFC 6877): IPv4 nodes, and the router's
// own programs, reach IPv4 over a network that has only IPv6 and a translator
// (the PLAT) somewhere.
const CLAT Mode = "clat"

// CLATConfig are the keys of [nat64.NAME] that only mode = "clat" has.
type CLATConfig struct {
	IPv4Nodes  []netip.Prefix `toml:"ipv4_nodes" ip:"4,bare" example:"[\"192.168.1.0/24\"]" doc:"Mode clat: the IPv4 nodes behind the router. Default: the IPv4 subnets of the interfaces."`
	CLATPrefix netip.Prefix   `toml:"clat_prefix" ip:"6" example:"\"2001:db8:1:c1a7::/96\"" doc:"Mode clat: the IPv6 prefix in which the IPv4 nodes get IPv6 addresses (RFC 6052). Default: a part of the first IPv6 subnet of length 64 of the interfaces, PREFIX:0:c1a7::/96, for which weft answers neighbour discovery."`
	OwnIPv4    netip.Addr     `toml:"clat_ipv4" was:"own_ipv4" ip:"4" example:"\"192.0.0.1\"" doc:"Mode clat: the IPv4 address that programs on the router itself use (RFC 7335)."`
	Discover   Discover       `toml:"discover" enum:"any,pref64,dns" example:"\"any\"" doc:"Mode clat without prefix: how to find the translator's prefix. pref64: in router advertisements (RFC 8781); dns: by a query for ipv4only.arpa (RFC 7050); any: both, and advertisements take precedence."`
	Resolvers  []netip.Addr   `toml:"resolvers" example:"[\"2001:db8:1::1\"]" doc:"Mode clat: the name servers to query for ipv4only.arpa. Default: those in router advertisements."`
}

// Discover is how the PLAT's prefix is found.
type Discover string

const (
	DiscoverAny    Discover = "any"
	DiscoverPREF64 Discover = "pref64"
	DiscoverDNS    Discover = "dns"
)

func clatDefaults() CLATConfig {
	return CLATConfig{OwnIPv4: netip.AddrFrom4([4]byte{192, 0, 0, 1}), Discover: DiscoverAny}
}

// Discovers reports whether the section needs the PLAT's prefix to be found.
func (c *Config) Discovers() bool { return c.Mode == CLAT && !c.Prefix.IsValid() }

// Uplinks returns the devices on which the network's routers are listened to:
// the interfaces without IPv4 addresses, because behind those there is nothing
// but IPv6. The IPv4 nodes' links are not believed, unless there are no others.
func (c *Config) Uplinks(f *config.File) []string {
	var all, six []string
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		all = append(all, i.Device)
		if !slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() }) {
			six = append(six, i.Device)
		}
	}
	if len(six) == 0 {
		return all
	}
	return six
}

// checkCLAT is check for mode clat, where most keys have another meaning.
func checkCLAT(c *config.Checker, name string, s *Config) {
	checkInterfaces(c, s)
	checkErrorSource(c, s)
	checkDevice(c, name, s)
	for _, key := range []string{"mappings", "translatable"} {
		if c.Given(key) {
			c.Error(key, `has no meaning in mode "clat"`, "say in ipv4_nodes who is behind it")
		}
	}
	if c.Given("prefix") {
		checkPrefix(c, s)
		if c.Given("discover") {
			c.Error("discover", "stands beside prefix: there is nothing to find", "keep one of the two")
		}
	}
	for i, p := range s.IPv4Nodes {
		if why, bad := unusable4(p); p.IsValid() && bad {
			c.Error(fmt.Sprintf("ipv4_nodes[%d]", i), fmt.Sprintf("%s is %s", p, why), "nodes have unicast addresses")
		}
	}
	if why, bad := unusable4(netip.PrefixFrom(s.OwnIPv4, 32)); s.OwnIPv4.IsValid() && bad {
		c.Error("clat_ipv4", fmt.Sprintf("%s is %s", s.OwnIPv4, why), "one of 192.0.0.0/29 (RFC 7335)")
	}
	if p := s.CLATPrefix; p.IsValid() {
		why, bad := unusable6(p)
		switch {
		case !legalLength(p.Bits()):
			c.Error("clat_prefix", fmt.Sprintf("/%d is not a length that an IPv4 address can follow", p.Bits()), "/32, /40, /48, /56, /64 or /96: RFC 6052 section 2.2")
		case bad:
			c.Error("clat_prefix", fmt.Sprintf("%s is %s", p, why), "a prefix that is routed to this router")
		case s.Prefix.IsValid() && p.Overlaps(s.Prefix):
			c.Error("clat_prefix", fmt.Sprintf("%s overlaps prefix, which stands for the others", p), "a prefix that is routed to this router")
		}
	}
	for i, a := range s.Resolvers {
		if a.IsValid() && (a.IsUnspecified() || a.IsMulticast()) {
			c.Error(fmt.Sprintf("resolvers[%d]", i), fmt.Sprintf("%s is not a unicast address", a), "use a DNS64 server of the network")
		}
	}
	for _, other := range c.File().Names("nat64") {
		if other == name {
			return
		}
		if From(c.File(), other).Mode == CLAT {
			c.Error("mode", fmt.Sprintf("nat64.%s takes all of IPv4 already", other), "one section of mode clat is enough: list all interfaces in it")
		}
	}
}

// onlyCLAT refuses the keys of mode clat elsewhere.
func onlyCLAT(c *config.Checker) {
	for _, key := range []string{"ipv4_nodes", "clat_prefix", "clat_ipv4", "discover", "resolvers"} {
		if c.Given(key) {
			c.Error(key, `is for mode "clat" only`, `take it out, or write mode = "clat"`)
		}
	}
}

// all4 is every IPv4 address.
func all4() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }

// halves are the two halves of all4 as routes: they are more specific than a default
// route of the host, and do not replace it.
func halves() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 1), netip.PrefixFrom(netip.AddrFrom4([4]byte{128}), 1)}
}

// effective returns the section as planning uses it. A CLAT is a stateless
// translator seen from behind: the IPv4 Internet is the IPv6 nodes under the
// PLAT's prefix, and the nodes here are IPv4 nodes with explicit mappings. It
// has no rules while either prefix is not known.
func effective(f *config.File, facts state.Facts, name string) *Config {
	c := From(f, name)
	if c.Mode != CLAT {
		return c
	}
	e := *c
	if !e.Prefix.IsValid() {
		e.Prefix = facts.PLAT[name]
	}
	own := c.CLATPrefix
	if !own.IsValid() {
		own = derived(f, facts, c)
	}
	e.Translatable, e.Mappings = nil, nil
	if !e.Prefix.IsValid() || !own.IsValid() {
		e.Prefix = netip.Prefix{}
		return &e
	}
	e.Translatable = []netip.Prefix{all4()}
	nodes := slices.Clone(c.IPv4Nodes)
	if len(nodes) == 0 {
		nodes = subnets4(f, c)
	}
	if c.OwnIPv4.IsValid() {
		nodes = append(nodes, netip.PrefixFrom(c.OwnIPv4, 32))
	}
	for _, p := range nodes {
		e.Mappings = append(e.Mappings, Mapping{IPv6: embedPrefix(own, p), IPv4: p, Node: NodeIPv4})
	}
	return &e
}

// nodes4 returns the IPv4 nodes of an effective CLAT, nil in other modes.
func (c *Config) nodes4() []netip.Prefix {
	if c.Mode != CLAT {
		return nil
	}
	var list []netip.Prefix
	for _, m := range c.Mappings {
		list = append(list, m.IPv4)
	}
	return list
}

// stranger reports whether the sender of an IPv4 packet is not a node of the CLAT. Such
// a source address, translated under the PLAT's prefix, would belong to another host.
// ICMP errors may come from routers in between.
func (c *slowConfig) outsider(ip []byte) bool {
	const icmp = 1
	if c.nodes == nil || len(ip) < 20 || ip[0]>>4 != 4 || ip[9] == icmp {
		return false
	}
	from := netip.AddrFrom4([4]byte(ip[12:16]))
	return !slices.ContainsFunc(c.nodes, func(p netip.Prefix) bool { return p.Contains(from) })
}

func subnets4(f *config.File, c *Config) []netip.Prefix {
	var list []netip.Prefix
	for _, name := range c.Interfaces {
		for _, a := range f.Interface(name).Addresses {
			if p := a.Masked(); a.Addr().Is4() && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// derived is the part of a link's subnet that the IPv4 nodes get: interface
// identifiers that no host makes by itself, because bits 64 to 95 are 0:c1a7.
// The addresses of the PLAT's side are global: of several subnets the one is
// taken that RFC 6724 section 5 would choose a source from for a global
// destination (rule 6, matching label: no unique local address beside a global
// one), and of those the first.
func derived(f *config.File, facts state.Facts, c *Config) netip.Prefix {
	var best netip.Prefix
	local := false
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		l, _ := facts.Link(i.Device)
		for _, a := range slices.Concat(i.Addresses, l.Addresses) {
			if !a.Addr().Is6() || a.Bits() > 64 || a.Addr().IsLinkLocalUnicast() || a.Addr().IsLoopback() {
				continue
			}
			if p := netip.PrefixFrom(a.Addr(), 64).Masked(); !best.IsValid() || local && !a.Addr().IsPrivate() {
				best, local = p, a.Addr().IsPrivate()
			}
		}
	}
	if !best.IsValid() {
		return netip.Prefix{}
	}
	b := best.Addr().As16()
	b[10], b[11] = 0xc1, 0xa7
	return netip.PrefixFrom(netip.AddrFrom16(b), 96)
}
