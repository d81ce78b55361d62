package lns

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// claims are the addresses and prefixes that the sections assign to subscribers.
func claims(f *config.File) (list []state.Claim) {
	for _, name := range f.Names("lns") {
		c, section := From(f, name), "lns."+name
		add := func(key string, p netip.Prefix, kind state.ClaimKind) {
			if p.IsValid() {
				path := section + "." + key
				list = append(list, state.Claim{Prefix: p, For: kind, Section: section, Path: path, Pos: f.Position(path)})
			}
		}
		each := func(key string, all []netip.Prefix) {
			for i, p := range all {
				add(fmt.Sprintf("%s[%d]", key, i), p, state.ClaimGiven)
			}
		}
		if g := gatewayOf(c); g.IsValid() {
			key := "pools"
			if c.Gateway.IsValid() {
				key = "gateway"
			}
			add(key, netip.PrefixFrom(g, 32), state.ClaimGateway)
		}
		for i, l := range c.LACs {
			add(fmt.Sprintf("lacs[%d].address", i), l.Address, state.ClaimPeer)
		}
		each("prefixes", c.Prefixes)
		each("delegate", c.Delegate)
		each("ipv6_addresses", c.Addresses6)
		for i, p := range c.Pools {
			at := fmt.Sprintf("pools[%d].", i)
			each(at+"addresses", p.Addresses)
			each(at+"prefixes", p.Prefixes)
			each(at+"delegate", p.Delegate)
			each(at+"ipv6_addresses", p.Addresses6)
		}
		for i, u := range c.Users {
			at := fmt.Sprintf("users[%d].", i)
			for key, a := range map[string]netip.Addr{"ipv4": u.IPv4, "ipv6": u.IPv6} {
				if a.IsValid() {
					add(at+key, netip.PrefixFrom(a, a.BitLen()), state.ClaimGiven)
				}
			}
			add(at+"prefix", u.Prefix, state.ClaimGiven)
			add(at+"delegated", u.Delegated, state.ClaimGiven)
			each(at+"routes", u.Routes)
		}
	}
	return list
}
