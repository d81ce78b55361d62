package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// onLink writes the prefixes of the link, where they are not just those of its addresses.
func (c *converter) onLink(i *iface, s *section, at string, key adder) {
	filter, err := netip.ParsePrefix(cmpOr(s.value("prefix_filter"), "::/0"))
	if err != nil || !filter.Addr().Is6() {
		s.no("prefix_filter", fmt.Sprintf("%q is no prefix", printable(s.value("prefix_filter"))), "like 2001:db8::/32")
		return
	}
	flags := ""
	if offLink := s.on("ra_offlink", false); offLink {
		flags += ", off_link = true"
	}
	if !autoconfig(s) {
		flags += ", no_autoconfig = true"
	}
	if flags == "" && filter.Bits() == 0 {
		s.yes("prefix_filter", at+" prefixes")
		s.yes("ra_offlink", at+" prefixes")
		return
	}
	var list []string
	seen := map[netip.Prefix]bool{}
	for _, p := range i.link.addresses {
		if p.Addr().Is6() && p.Bits() == 64 && !p.Addr().IsLinkLocalUnicast() && filter.Overlaps(p) && !seen[p.Masked()] {
			seen[p.Masked()] = true
			list = append(list, fmt.Sprintf("{ prefix = %q%s }", p.Masked(), flags))
		}
	}
	for _, option := range []string{"prefix_filter", "ra_offlink", "ra_slaac"} {
		s.yes(option, at+" prefixes")
		if len(list) == 0 {
			s.no(option, "the prefixes of the link are not in the file", "write "+at+" prefixes once they are known")
		}
	}
	if len(list) > 0 {
		key("prefixes = [%s]", strings.Join(list, ", "))
	}
}

// autoconfig reports whether hosts form addresses by themselves.
func autoconfig(s *section) bool {
	return s.on("ra_slaac", s.value("ra_management") != "2")
}

// managed reports whether hosts are to ask for addresses by DHCPv6.
func managed(s *section) bool {
	if s.has("ra_flags") {
		return slices.Contains(s.words("ra_flags"), "managed-config")
	}
	return s.value("ra_management") == "1" || s.value("ra_management") == "2"
}

// stateful writes the DHCPv6 server.
func (c *converter) stateful(i *iface, s *section, at string, key adder) {
	switch mode := s.value("dhcpv6"); mode {
	case "server":
	case "", "disabled":
		s.yes("dhcpv6", at+" dhcpv6")
		return
	default:
		s.no("dhcpv6", "weft does not relay DHCPv6", "let it answer itself, with dhcpv6")
		return
	}
	var pool, delegate, length = "", "", 0
	if managed(s) && s.on("dhcpv6_na", true) && s.on("dynamicdhcp", true) {
		for _, p := range i.link.addresses {
			if p.Addr().Is6() && p.Bits() == 64 && !p.Addr().IsLinkLocalUnicast() {
				a := p.Masked().Addr().As16()
				a[14] = 0x10
				pool = netip.PrefixFrom(netip.AddrFrom16(a), 116).String()
				break
			}
		}
	}
	if s.on("dhcpv6_pd", true) {
		for _, b := range i.blocks {
			if b.Bits() <= 60 {
				delegate, length = block(b, uint64(1)<<(63-b.Bits()), uint64(1)<<(63-b.Bits())).String(), min(64, b.Bits()+2)
				break
			}
		}
	}
	if pool == "" && delegate == "" {
		key(`dhcpv6 = "stateless"`)
		if managed(s) {
			s.differs("dhcpv6", at+" dhcpv6: stateless, as no prefix of the link is in the file", "write pool once it is known")
		} else {
			s.yes("dhcpv6", at+" dhcpv6")
		}
		return
	}
	key(`dhcpv6 = "stateful"`)
	what := at + ` dhcpv6 = "stateful"`
	if pool != "" {
		key("pool = [%q]", pool)
		what += ", with the addresses of " + pool
	}
	if delegate != "" {
		key("delegate = [%q]", delegate)
		key("delegated_len = %d", length)
		what += ", with prefixes of " + delegate
	} else {
		what += ", without prefixes for other routers"
	}
	s.differs("dhcpv6", what, "write pool and delegate as you need them")
}
