package openwrt

import (
	"net/netip"
	"path"
	"slices"
	"strings"
)

// zone is a zone of the firewall.
type zone struct {
	name       string
	networks   []string
	masquerade bool
}

// blocked is what becomes [block].
type blocked struct {
	prefixes []string
	seen     map[netip.Prefix]bool
	files    []string
}

// readZones learns which interfaces are in which zone.
func (c *converter) readZones() {
	c.zoneOf = map[string]*zone{}
	for _, s := range c.of("firewall", "zone") {
		z := &zone{name: s.value("name"), networks: s.words("network"), masquerade: s.on("masq", false)}
		if len(z.networks) == 0 {
			z.networks = []string{z.name} // as firewall3 has it
		}
		c.zones = append(c.zones, z)
		for _, name := range z.networks {
			c.zoneOf[name] = z
		}
	}
}

// zoneLinks are the interfaces of a zone in weft.toml.
func (c *converter) zoneLinks(name string) (links []*link) {
	for _, z := range c.zones {
		if z.name != name {
			continue
		}
		for _, n := range z.networks {
			if i := c.byName[n]; i != nil && i.link != nil && !slices.Contains(links, i.link) {
				links = append(links, i.link)
			}
		}
	}
	return links
}

// firewall reads flow offload and blocked sources, and names for all else the sections to write.
func (c *converter) firewall() {
	for _, s := range c.of("firewall", "defaults") {
		c.flows(s)
		for _, option := range []string{"syn_flood", "synflood_protect"} {
			s.no(option, "weft does not limit SYN packets by default", "[guard.NAME] syn_per_source and syn_total; fw4's own limit comes with its rules")
		}
		s.rest(No, "the import does not write the firewall", fw4)
	}
	sets := map[string]*section{}
	for _, s := range c.of("firewall", "ipset") {
		sets[s.value("name")] = s
	}
	for _, s := range c.of("firewall", "rule") {
		if !s.on("enabled", true) {
			s.rest(Yes, "not enabled, and left out", "")
			continue
		}
		c.blockRule(s, sets)
		s.rest(No, "the import does not write rules of the firewall", fw4)
	}
	for _, s := range c.of("firewall", "redirect") {
		if !s.on("enabled", true) {
			s.rest(Yes, "not enabled, and left out", "")
			continue
		}
		s.rest(No, "the import does not write port forwards", fw4+"; to reach an IPv6 node from IPv4, [nat64.NAME] has static")
	}
	if p := c.packages["firewall"]; p != nil {
		for _, s := range p.sections {
			switch s.Type {
			case "zone":
				s.rest(No, "the import does not write zones and masquerading", fw4)
			case "forwarding":
				s.rest(No, "weft forwards between all interfaces; nftables says what may not", fw4)
			case "nat":
				s.rest(No, "the import does not write NAT for IPv4", fw4)
			case "include":
				s.rest(No, "weft runs no scripts of a firewall", "take what it does over to nftables")
			default:
				s.rest(No, "the import does not write the firewall", fw4)
			}
		}
	}
}

// flows is flow_offloading: between all interfaces with Ethernet that are in zones.
func (c *converter) flows(s *section) {
	if !s.on("flow_offloading", false) {
		s.yes("flow_offloading", "off, as in weft.toml")
		s.yes("flow_offloading_hw", "off, as in weft.toml")
		return
	}
	for _, l := range c.links {
		zoned := slices.ContainsFunc(l.ifaces, func(i *iface) bool { return c.zoneOf[i.name] != nil })
		pppoe := slices.IndexFunc(l.ifaces, func(i *iface) bool { return i.proto == "pppoe" })
		if !zoned || !l.ethernet && pppoe < 0 {
			continue
		}
		c.offload = append(c.offload, l.name)
		if pppoe >= 0 {
			c.below(l.ifaces[pppoe])
		}
	}
	if len(c.offload) < 2 {
		c.offload = nil
		s.no("flow_offloading", "fewer than two interfaces with Ethernet are in weft.toml", "write [offload] with interfaces")
		return
	}
	s.differs("flow_offloading", "[offload]: eBPF forwards established connections in place of nftables' flowtable", "remove the flowtable from the rules of fw4; weft check as root says what cannot be offloaded")
	if s.on("flow_offloading_hw", false) {
		s.no("flow_offloading_hw", "[offload] works in XDP and TC, not in the network chip", "nothing to do")
	} else {
		s.yes("flow_offloading_hw", "off, as in weft.toml")
	}
}

// below adds the interface below a PPPoE session, which is offloaded too.
func (c *converter) below(i *iface) {
	if i.lower == "" || deviceName(i.lower) != "" || c.ports[i.lower] {
		return
	}
	l := c.linkOf[i.lower]
	if l == nil {
		l = c.newLink(i.name+"-link", i.lower)
	}
	if !slices.Contains(c.offload, l.name) {
		c.offload = append(c.offload, l.name)
	}
}

// newLink adds an interface that OpenWrt has no name for.
func (c *converter) newLink(name, device string) *link {
	for c.names[name] != "" {
		name += "-2"
	}
	l := &link{name: name, device: device, ethernet: true}
	c.links, c.linkOf[device], c.names[name] = append(c.links, l), l, device
	return l
}

// plainRule are the options of a rule that only blocks sources.
var plainRule = []string{"name", "src", "dest", "src_ip", "ipset", "target", "enabled", "family", "proto", "log", "counter"}

// blockRule takes a rule that drops all packets of some sources at an uplink.
func (c *converter) blockRule(s *section, sets map[string]*section) {
	target := strings.ToUpper(s.value("target"))
	proto := strings.ToLower(s.value("proto"))
	links := c.zoneLinks(s.value("src"))
	if target != "DROP" && target != "REJECT" || proto != "all" && proto != "any" && proto != "*" || len(links) == 0 {
		return
	}
	if s.has("dest") && s.value("dest") != "*" {
		return
	}
	for _, option := range s.Order {
		if !slices.Contains(plainRule, option) {
			return
		}
	}
	for _, l := range links {
		if !l.ethernet || c.ports[l.device] {
			return // [guard] needs Ethernet
		}
	}
	var list []netip.Prefix
	for _, word := range s.words("src_ip") {
		p, ok := source(word)
		if !ok {
			return
		}
		list = append(list, p)
	}
	set := sets[s.value("ipset")]
	if s.has("ipset") && (len(list) > 0 || !c.blockSet(set)) || !s.has("ipset") && len(list) == 0 {
		return
	}
	for _, p := range list {
		c.block.add(p)
	}
	for _, l := range links {
		if !slices.Contains(c.guard, l.name) {
			c.guard = append(c.guard, l.name)
		}
	}
	s.rest(Differs, "[block] and [guard.sources]: these sources are dropped at the interfaces of the zone, before other rules, and whether they are for the router or forwarded", "list in [block] except what an earlier rule accepts")
}

func (b *blocked) add(p netip.Prefix) {
	if b.seen == nil {
		b.seen = map[netip.Prefix]bool{}
	}
	if !b.seen[p] {
		b.seen[p] = true
		b.prefixes = append(b.prefixes, p.String())
	}
}

// source reads an address or prefix that can be blocked.
func source(word string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(word)
	if err != nil {
		a, err := netip.ParseAddr(word)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return p.Masked(), p.Bits() > 0 && !p.Addr().Is4In6()
}

// blockSet takes the entries of an ipset of sources.
func (c *converter) blockSet(s *section) bool {
	if s == nil || !s.on("enabled", true) {
		return false
	}
	for _, m := range s.words("match") {
		if m != "src_ip" && m != "src_net" {
			return false
		}
	}
	var list []netip.Prefix
	for _, word := range s.words("entry") {
		p, ok := source(word)
		if !ok {
			return false
		}
		list = append(list, p)
	}
	file := s.value("loadfile")
	if file != "" && (!path.IsAbs(file) || !ascii(file)) || file == "" && len(list) == 0 {
		return false
	}
	for _, p := range list {
		c.block.add(p)
	}
	if file != "" && !slices.Contains(c.block.files, file) {
		c.block.files = append(c.block.files, file)
	}
	s.yes("loadfile", "[block] files")
	s.yes("entry", "[block] prefixes")
	s.rest(Yes, "[block]", "")
	return true
}
