package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/importer"
	"weft/internal/state"
)

// Of several translators only the first is taken: their prefixes and pools must differ,
// which the files of OpenWrt do not show.
const (
	second       = "there is a translator already, and a second one needs a prefix and pools of its own"
	secondRemedy = "write a second [nat64.NAME], with a prefix and pools that the first has not"
)

// translators reads 464xlat, Tayga and Jool.
func (c *converter) translators() {
	for _, i := range c.ifaces {
		switch i.proto {
		case "464xlat":
			c.clat464(i, "ip6prefix")
		case "jool_clat":
			c.clat464(i, "plat_prefix")
		case "tayga":
			c.tayga(i)
		}
	}
	c.jool()
}

// served are the NAMEs of the interfaces that a translator serves: all with Ethernet or
// addresses that a zone of the firewall has, or all if none has one.
func (c *converter) served() []string {
	var zoned, all []string
	for _, l := range c.links {
		all = append(all, l.name)
		if slices.ContainsFunc(l.ifaces, func(i *iface) bool { return c.zoneOf[i.name] != nil }) {
			zoned = append(zoned, l.name)
		}
	}
	if len(zoned) > 0 {
		return zoned
	}
	return all
}

// clat464 makes the client side of 464XLAT.
func (c *converter) clat464(i *iface, option string) {
	s := i.s
	at := fmt.Sprintf("[nat64.%s]", translatorName(i.name))
	served := c.served()
	switch {
	case len(served) == 0:
		s.rest(No, "no interface is left that it could serve", "write [nat64.clat] with mode = \"clat\"")
		return
	case len(c.nat64) > 0:
		s.rest(No, second, secondRemedy)
		return
	}
	prefix := s.value(option)
	var key string
	if prefix != "" {
		p, err := netip.ParsePrefix(prefix)
		if err != nil || !translates(p) {
			s.no(option, fmt.Sprintf("%q is no prefix that IPv4 addresses stand under", printable(prefix)), "a /96, like 64:ff9b::/96; without it weft finds the prefix")
		} else {
			key = fmt.Sprintf("prefix = %q\n", p.Masked())
			s.yes(option, at+" prefix")
		}
	}
	s.yes("", at)
	s.differs("proto", at+": each IPv4 node has an IPv6 address of its own out of the interface's /64; OpenWrt has one for all, behind masquerade",
		"nothing to do; a firewall between LAN and uplink now sees the translated packets as IPv4 at "+translatorDevice(i.name))
	s.yes("tunlink", "the kernel's routes")
	s.differs("ip6addr", "weft has a prefix for all IPv4 nodes, not one address", "set clat_prefix to a /96 that is routed to this router, or leave it out")
	for _, o := range []string{"clat_v4", "clat_v6"} {
		s.differs(o, "weft takes the IPv4 subnets of its interfaces, and addresses of their /64", "set ipv4_nodes and clat_prefix")
	}
	for _, o := range []string{"veth_host_v4", "veth_ns_v4", "veth_host_ifname", "veth_ns_ifname", "netns"} {
		s.yes(o, "weft needs neither a namespace nor a veth pair")
	}
	s.table(interfaceOptions, "DEVICE", translatorDevice(i.name))
	s.rest(No, "weft has no such setting of a CLAT", "see docs/features/nat64.md")
	c.nat64 = append(c.nat64, fmt.Sprintf("[nat64.%s]\nmode = \"clat\"\ninterfaces = [%s]\n%s", translatorName(i.name), importer.Quoted(served), key))
}

// translates reports whether IPv4 addresses can stand under a prefix (RFC 6052).
func translates(p netip.Prefix) bool {
	known := netip.MustParsePrefix("64:ff9b::/96")
	a := p.Addr()
	return a.Is6() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() && !a.Is4In6() && !a.IsLoopback() && slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) &&
		(p.Bits() < 96 || a.As16()[8] == 0) && (!p.Overlaps(known) || p.Masked() == known)
}

// translatorName is what fits behind nat64- in a device's name.
func translatorName(name string) string { return name[:min(len(name), 9)] }

func translatorDevice(name string) string { return "nat64-" + translatorName(name) }

// tayga makes the translator of an interface with proto tayga: from the tayga.conf that
// OpenWrt's script writes, so that there is one reader of those.
func (c *converter) tayga(i *iface) {
	s := i.s
	served := c.served()
	at := fmt.Sprintf("[nat64.%s]", translatorName(i.name))
	var conf strings.Builder
	var options []string
	line := func(option, format string, args ...any) {
		if s.has(option) {
			fmt.Fprintf(&conf, format+"\n", args...)
			options = append(options, option)
			s.yes(option, at)
		}
	}
	word := func(option string) string {
		if words := s.words(option); len(words) > 0 {
			return words[0]
		}
		return ""
	}
	if device := "tayga-" + i.name; deviceName(device) == "" {
		conf.WriteString("tun-device " + device + "\n")
		options = append(options, "proto")
	}
	line("ipv4_addr", "ipv4-addr %s", word("ipv4_addr"))
	line("ipv6_addr", "ipv6-addr %s", word("ipv6_addr"))
	line("prefix", "prefix %s", word("prefix"))
	line("dynamic_pool", "dynamic-pool %s", word("dynamic_pool"))
	line("map_ipv4", "map %s %s", word("map_ipv4"), word("map_ipv6"))
	s.yes("map_ipv6", at)
	if len(c.nat64) > 0 {
		c.unmark(s)
		s.rest(No, second, secondRemedy)
		return
	}
	text, problems := importer.Tayga([]byte(conf.String()), importer.Options{
		File: s.file, Part: true, Name: translatorName(i.name), Interfaces: served, WAN: c.uplink(),
	})
	var p netip.Prefix
	var err error
	if s.has("prefix") {
		p, err = netip.ParsePrefix(word("prefix"))
	}
	if state.HasErrors(problems) || len(served) == 0 || err != nil || p.IsValid() && !translates(p) {
		what := "its prefix or addresses cannot be read"
		for _, p := range problems {
			if p.Severity == state.Error {
				what = p.What
			}
		}
		c.unmark(s)
		s.rest(No, what, "write a [nat64.NAME], see docs/features/nat64.md")
		return
	}
	for _, p := range problems {
		if n := p.Pos.Line; n >= 1 && n <= len(options) {
			s.differs(options[n-1], at+": "+p.What, modeOf.Replace(p.Remedy))
		}
	}
	s.yes("", at)
	s.yes("proto", at)
	s.yes("noroutes", "weft sets the routes to its translators")
	for _, option := range []string{"ipaddr", "ip6addr"} {
		s.differs(option, "the translator's device needs no address", "nothing to do")
	}
	s.table(interfaceOptions, "DEVICE", translatorDevice(i.name))
	s.rest(No, "weft has no such setting of a translator", "see docs/features/nat64.md")
	c.nat64 = append(c.nat64, text)
}

// modeOf turns what weft import tayga says of its flag into what stands in weft.toml.
var modeOf = strings.NewReplacer("give weft import --mode stateless", `set mode = "stateless"`, "weft import --mode stateful", `mode = "stateful" and pools`, "give weft import --mode clat", `set mode = "clat"`)

// unmark takes the verdicts on a section away.
func (c *converter) unmark(s *section) {
	for _, v := range s.Options {
		for _, l := range v.Lines {
			delete(c.marks, l)
		}
	}
	for _, l := range s.Heads {
		delete(c.marks, l)
	}
}

// uplink is the device by which IPv4 leaves.
func (c *converter) uplink() string {
	for _, z := range c.zones {
		for _, name := range z.networks {
			if i := c.byName[name]; z.masquerade && i != nil && i.device != "" {
				return i.device
			}
		}
	}
	if i := c.byName["wan"]; i != nil && i.device != "" {
		return i.device
	}
	return "wan"
}

// jool reads /etc/config/jool, and the JSON files of the instances that it enables.
func (c *converter) jool() {
	enabled := false
	for _, s := range c.of("jool", "jool") {
		if s.Name == "general" {
			enabled = s.on("enabled", false)
			s.rest(Yes, "which instances run", "")
		}
	}
	for _, s := range c.of("jool", "jool") {
		if s.Name == "general" {
			continue
		}
		if !enabled || !s.on("enabled", false) {
			s.rest(Yes, "not enabled, and left out", "")
			continue
		}
		c.joolInstance(s)
	}
}

func (c *converter) joolInstance(s *section) {
	file, there := c.options.Jool[s.Name]
	mode := map[string]string{"nat64": "stateful", "siit": "stateless"}[s.Name]
	if !there || mode == "" {
		s.rest(No, fmt.Sprintf("the file /etc/jool/jool-%s.conf.json is not there", printable(s.Name)), "weft import jool FILE converts it")
		return
	}
	served := c.served()
	if len(served) == 0 {
		s.rest(No, "no interface is left that it could serve", "weft import jool FILE converts its file")
		return
	}
	if len(c.nat64) > 0 {
		s.rest(No, second, secondRemedy)
		return
	}
	text, problems := importer.Jool(file.Text, importer.Options{
		File: file.File, Mode: mode, Part: true, Name: s.Name, Interfaces: served, WAN: c.uplink(),
	})
	if state.HasErrors(problems) {
		s.rest(No, problems[0].String(), "mend that file, and import it by weft import jool")
		return
	}
	at := fmt.Sprintf("[nat64.%s], from %s", s.Name, file.File)
	if len(problems) == 0 {
		s.rest(Yes, at, "")
	}
	s.rest(Differs, fmt.Sprintf("%s, with %d differences", at, len(problems)), "weft import jool "+file.File+" lists them")
	for _, p := range problems {
		var t importer.TOML
		t.Comment(fmt.Sprintf("%s:%d, %s: %s (%s)", file.File, p.Pos.Line, p.Path, p.What, p.Remedy))
		text = t.String() + text
	}
	c.nat64 = append(c.nat64, text)
}
