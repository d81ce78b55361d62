package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
)

// resolver is what becomes [dns64].
type resolver struct {
	interfaces, forwarders []string
	prefix                 netip.Prefix
}

// readDNS64 reads unbound, which is how OpenWrt has DNS64, and looks for resolvers to
// forward to.
func (c *converter) readDNS64() {
	for _, s := range c.of("unbound", "unbound") {
		if !s.on("enabled", true) || !s.on("dns64", false) {
			s.rest(No, "weft is a name server for DNS64 only", "keep unbound")
			continue
		}
		c.unbound(s)
	}
	for _, s := range c.of("dhcp", "dnsmasq") {
		what := "weft is neither a DHCPv4 server nor a name server for IPv4-only networks"
		if c.dns64 != nil {
			what = "weft has no DHCPv4 server; [dns64] answers in place of dnsmasq's name server"
			s.differs("server", "[dns64] forwarders: resolvers for single domains are left out", "keep dnsmasq on another port, and forward to it")
			s.differs("domain", "hosts learn the domain, but weft knows no local names", "keep dnsmasq on another port for them, and forward to it")
		}
		s.rest(No, what, "keep dnsmasq; [dns64] needs its port 53 on the interfaces that it answers on")
	}
}

func (c *converter) unbound(s *section) {
	r := &resolver{prefix: netip.MustParsePrefix("64:ff9b::/96")}
	if s.has("dns64_prefix") {
		p, err := netip.ParsePrefix(s.value("dns64_prefix"))
		if err != nil || !translates(p) {
			s.no("dns64_prefix", fmt.Sprintf("%q is no prefix that IPv4 addresses stand under", printable(s.value("dns64_prefix"))), "like 64:ff9b::/96")
		} else {
			r.prefix = p.Masked()
			s.yes("dns64_prefix", "[dns64] prefixes")
		}
	}
	for _, d := range c.of("dhcp", "dhcp") {
		i := c.byName[cmpOr(d.value("interface"), d.Name)]
		if i != nil && i.link != nil && d.value("ra") == "server" && !slices.Contains(r.interfaces, i.link.name) {
			r.interfaces = append(r.interfaces, i.link.name)
		}
	}
	r.forwarders = c.forwarders(r.interfaces)
	switch {
	case len(r.interfaces) == 0:
		s.no("dns64", "no interface has router advertisements, whose hosts would ask", "write [dns64] with interfaces")
	case len(r.forwarders) == 0:
		s.no("dns64", "weft forwards to resolvers, and the file names none", "write [dns64] with forwarders; unbound itself may be one, on another port of this machine")
	default:
		c.dns64 = r
		s.yes("", "[dns64]")
		s.differs("dns64", "[dns64]: weft forwards to resolvers, and does not resolve by itself", "unbound may stay, on another port: forwarders = [\"127.0.0.1:5353\"]")
		s.yes("enabled", "[dns64]")
		s.yes("dns64_prefix", "[dns64] prefixes")
	}
	s.rest(No, "weft has no such setting of a name server", "see docs/features/dns64.md")
}

// forwarders are the resolvers that other parts of the file name, but for own addresses.
func (c *converter) forwarders(on []string) []string {
	own := map[netip.Addr]bool{}
	for _, l := range c.links {
		for _, p := range l.addresses {
			own[p.Addr()] = true
		}
	}
	var list []string
	add := func(text string) {
		a, err := netip.ParseAddr(text)
		if err == nil && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && !a.Is4In6() && !a.IsLinkLocalUnicast() && !own[a] && !slices.Contains(list, a.String()) {
			list = append(list, a.String())
		}
	}
	for _, s := range c.of("unbound", "zone") {
		if s.on("enabled", true) && (s.value("zone_name") == "." || s.value("zone_type") == "forward_zone") {
			for _, word := range s.words("server") {
				add(word)
			}
		}
	}
	for _, s := range c.of("dhcp", "dnsmasq") {
		for _, word := range s.words("server") {
			add(word)
		}
	}
	for _, i := range c.ifaces {
		for _, word := range i.s.words("dns") {
			add(word)
		}
	}
	const most = 8
	return list[:min(len(list), most)]
}
