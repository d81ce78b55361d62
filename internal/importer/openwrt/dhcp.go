package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// advert is what becomes [ra.NAME].
type advert struct {
	name string
	keys []string
}

var dhcp4 = mark{No, "weft has no DHCPv4 server", "keep dnsmasq, or run Kea"}

// dhcpOptions are those of config dhcp that weft has no use for.
var dhcpOptions = map[string]mark{
	"start": dhcp4, "limit": dhcp4, "leasetime": dhcp4, "dhcpv4": dhcp4, "dhcp_option": dhcp4, "dhcp_option_force": dhcp4, "dynamicdhcp": dhcp4, "force": dhcp4, "options": dhcp4, "netmask": dhcp4,
	"networkid": dhcp4, "instance": dhcp4, "router": dhcp4, "dhcpv4_forcereconf": dhcp4, "tag": dhcp4,
	"ignore":                 {Yes, "no DHCPv4 here, nor by weft", ""},
	"ndp":                    {No, "weft is no proxy of neighbour discovery", "route a prefix to the link, by DHCPv6 prefix delegation or statically"},
	"master":                 {No, "weft relays no router advertisements", "route a prefix to the link"},
	"ntp":                    {No, "weft announces no time servers", "keep odhcpd, or let hosts have their own"},
	"dnr":                    {No, "weft announces no encrypted name servers (RFC 9463)", "keep odhcpd, or set them in the hosts"},
	"dhcpv6_assignall":       {Yes, "a host gets one address of the pool", ""},
	"dhcpv6_hostidlength":    {Yes, "[ra.NAME] pool", ""},
	"ra_mininterval":         {Differs, "the shortest interval is a third of max_interval", "nothing to do"},
	"ra_reachabletime":       {No, "weft leaves the reachable time to hosts", "nothing to do"},
	"ra_retranstime":         {No, "weft leaves the retransmission time to hosts", "nothing to do"},
	"ra_useleasetime":        {Differs, "lifetimes are preferred_lifetime and valid_lifetime", "set those"},
	"ra_advrouter":           {Yes, "the router's address is that of its advertisements", ""},
	"dhcpv6_pd_min_len":      {Differs, "delegated prefixes have one length, delegated_len", "set it"},
	"preferred_lifetime":     {No, "could not be read", "set [ra.NAME] preferred_lifetime"},
	"ndproxy_routing":        {No, "weft is no proxy of neighbour discovery", "nothing to do"},
	"ndproxy_slave":          {No, "weft is no proxy of neighbour discovery", "nothing to do"},
	"ndp_from_link_local":    {No, "weft is no proxy of neighbour discovery", "nothing to do"},
	"ra_management":          {Yes, "[ra.NAME] dhcpv6", ""},
	"ra_flags":               {Yes, "[ra.NAME] dhcpv6", ""},
	"ra_slaac":               {Yes, "[ra.NAME] prefixes", ""},
	"dhcpv6_na":              {Yes, "[ra.NAME] pool", ""},
	"dhcpv6_pd":              {Yes, "[ra.NAME] delegate", ""},
	"max_valid_lifetime":     {No, "could not be read", "set [ra.NAME] valid_lifetime"},
	"ra_unicast":             {Yes, "a host with an address gets a unicast answer", ""},
	"ra_dns":                 {Yes, "[ra.NAME] dns", ""},
	"dns_service":            {Yes, "[ra.NAME] dns", ""},
	"captive_portal_uri":     {No, "could not be read", "set [ra.NAME] captive_portal"},
	"max_preferred_lifetime": {No, "could not be read", "set [ra.NAME] preferred_lifetime"},
}

// adverts reads the dhcp package: what is of router advertisements and DHCPv6 is weft's,
// the rest is left to dnsmasq.
func (c *converter) adverts() {
	domain := ""
	for _, s := range c.of("dhcp", "dnsmasq") {
		domain = s.value("domain")
	}
	has := map[string]bool{}
	for _, s := range c.of("dhcp", "dhcp") {
		name := cmpOr(s.value("interface"), s.Name)
		i := c.byName[name]
		s.yes("interface", "interface "+printable(name))
		serves := s.value("ra") == "server" && !s.on("master", false)
		switch {
		case !serves:
			c.noAdvert(s)
		case i == nil || i.link == nil:
			s.table(dhcpOptions)
			s.rest(No, fmt.Sprintf("interface %s is not in weft.toml", printable(name)), "write [ra.NAME] once it is")
		case has[i.link.name]:
			s.rest(No, fmt.Sprintf("[ra.%s] is there already", i.link.name), "one section is for a link")
		default:
			has[i.link.name] = true
			c.advert(i, s, domain)
		}
	}
	for _, s := range c.of("dhcp", "host") {
		s.rest(No, "weft has no DHCPv4 server, and no leases that are fixed", "keep dnsmasq, or run Kea; in an isolated bridge, macs and addresses of a port tie a host to its address")
	}
	for _, s := range c.of("dhcp", "odhcpd") {
		s.yes("", "[ra.NAME] takes its place")
		s.yes("maindhcp", "weft has no DHCPv4 server")
		s.yes("legacy", "weft has no DHCPv4 server")
		s.differs("leasefile", "leases are in /var/lib/weft/NAME.leases, in another form", "hosts get a new address once")
		s.rest(No, "belongs to odhcpd", "nothing to do")
	}
}

// noAdvert says what a section without advertisements is.
func (c *converter) noAdvert(s *section) {
	for _, option := range []string{"ra", "dhcpv6"} {
		switch s.value(option) {
		case "", "disabled":
			s.yes(option, "off, as in weft.toml")
		case "server":
			s.no(option, "weft answers DHCPv6 where it advertises itself as a router", "write [ra.NAME] with lifetime = \"0s\"")
		default:
			s.no(option, "weft relays neither router advertisements nor DHCPv6", "route a prefix to the link, by DHCPv6 prefix delegation or statically, and write [ra.NAME]")
		}
	}
	if s.value("ndp") != "relay" && s.value("ndp") != "hybrid" {
		s.yes("ndp", "off, as in weft.toml")
	} else {
		s.no("ndp", dhcpOptions["ndp"].what, dhcpOptions["ndp"].remedy)
	}
	if s.on("ignore", false) {
		s.rest(Yes, "no DHCPv4 here, nor by weft", "")
		return
	}
	s.table(dhcpOptions)
	s.rest(No, dhcp4.what, dhcp4.remedy)
}

func (c *converter) advert(i *iface, s *section, domain string) {
	a := &advert{name: i.link.name}
	at := fmt.Sprintf("[ra.%s]", a.name)
	key := func(format string, args ...any) { a.keys = append(a.keys, fmt.Sprintf(format, args...)) }
	s.yes("", at)
	s.yes("interface", at)
	s.yes("ra", at)
	if s.value("ra_default") == "" || s.value("ra_default") == "0" {
		s.differs("ra", at+": hosts take the router for their default router even while it has no uplink", `set lifetime = "0s" where it is none`)
	}
	s.yes("ra_default", at+" lifetime")
	interval := c.seconds(s, "ra_maxinterval", "max_interval", 4, 1800, at, key, 600)
	least := 0
	if n, err := strconv.Atoi(s.value("ra_lifetime")); err == nil && n > 0 {
		least = interval
	}
	c.seconds(s, "ra_lifetime", "lifetime", least, 9000, at, key, 1800)
	if !s.has("ra_lifetime") && interval > 1800 {
		key(`lifetime = "%ds"`, 3*interval)
	}
	switch p := s.value("ra_preference"); p {
	case "low", "medium", "high":
		key("preference = %q", p)
		s.yes("ra_preference", at+" preference")
	default:
		s.no("ra_preference", fmt.Sprintf("%q is no preference", printable(p)), "low, medium or high")
	}
	c.number(s, "ra_hoplimit", "hop_limit", 0, 255, at, key)
	c.number(s, "ra_mtu", "mtu", 1280, 65535, at, key)
	c.lifetimes(s, at, key)
	c.hostNames(i, s, domain, at, key)
	c.onLink(i, s, at, key)
	c.stateful(i, s, at, key)
	if p, err := netip.ParsePrefix(s.value("ra_pref64")); err == nil && p.Addr().Is6() && slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) {
		key("pref64 = [%q]", p.Masked())
		s.yes("ra_pref64", at+" pref64")
	} else {
		s.no("ra_pref64", fmt.Sprintf("%q is no prefix of a translator", printable(s.value("ra_pref64"))), "like 64:ff9b::/96")
	}
	if uri := s.value("captive_portal_uri"); strings.HasPrefix(uri, "https://") && !strings.ContainsAny(uri, " \t\n\"\\?#") && ascii(uri) {
		key("captive_portal = %q", uri)
		s.yes("captive_portal_uri", at+" captive_portal")
	}
	s.table(dhcpOptions, "[ra.NAME]", at)
	s.rest(No, "weft has no such setting of router advertisements or DHCPv6", "see docs/features/ra.md")
	c.ra = append(c.ra, a)
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

type adder func(format string, args ...any)

// seconds takes a number of seconds, and returns it or what it is by default.
func (c *converter) seconds(s *section, option, name string, least, most int, at string, key adder, otherwise int) int {
	if !s.has(option) {
		return otherwise
	}
	n, err := strconv.Atoi(s.value(option))
	if err != nil || n < least || n > most {
		s.no(option, fmt.Sprintf("%q is no time from %d to %d seconds", printable(s.value(option)), least, most), "set "+at+" "+name)
		return otherwise
	}
	key(`%s = "%ds"`, name, n)
	s.yes(option, at+" "+name)
	return n
}

func (c *converter) number(s *section, option, name string, least, most int, at string, key adder) {
	if !s.has(option) {
		return
	}
	n, err := strconv.Atoi(s.value(option))
	if err != nil || n < least || n > most {
		s.no(option, fmt.Sprintf("%q is no number from %d to %d", printable(s.value(option)), least, most), "set "+at+" "+name)
		return
	}
	key("%s = %d", name, n)
	s.yes(option, at+" "+name)
}

// lifetimes takes those of addresses; 30 days are weft's most.
func (c *converter) lifetimes(s *section, at string, key adder) {
	const most, preferred, valid = 30 * 86400, 45 * 60, 90 * 60
	read := func(options ...string) (int, string) {
		for _, option := range options {
			if n := duration(s.value(option)); n > 0 && n <= most {
				return n, option
			}
		}
		return 0, ""
	}
	p, option := read("max_preferred_lifetime", "preferred_lifetime")
	v, other := read("max_valid_lifetime")
	if max(p, preferred) > max(v, valid) && v != 0 || p > valid && v == 0 {
		v = p // the longer of the two
		s.differs(option, at+" preferred_lifetime, which is not longer than valid_lifetime", "nothing to do")
	}
	if p != 0 {
		key(`preferred_lifetime = "%ds"`, p)
		if !s.judged(option) {
			s.yes(option, at+" preferred_lifetime")
		}
	} else if v != 0 && v < preferred {
		key(`preferred_lifetime = "%ds"`, v)
	}
	if v != 0 {
		key(`valid_lifetime = "%ds"`, v)
		s.yes(other, at+" valid_lifetime")
	}
}

// duration reads a time of OpenWrt, like 45m, 12h or 7d, in seconds; 0: it is none.
func duration(text string) int {
	if text == "" {
		return 0
	}
	unit := 1
	switch text[len(text)-1] {
	case 's':
		text = text[:len(text)-1]
	case 'm':
		unit, text = 60, text[:len(text)-1]
	case 'h':
		unit, text = 3600, text[:len(text)-1]
	case 'd':
		unit, text = 86400, text[:len(text)-1]
	case 'w':
		unit, text = 7*86400, text[:len(text)-1]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<31 {
		return 0
	}
	return n * unit
}

// hostNames writes the name servers and search domains that hosts learn.
func (c *converter) hostNames(i *iface, s *section, domain, at string, key adder) {
	var dns []string
	for _, word := range s.words("dns") {
		a, err := netip.ParseAddr(word)
		switch {
		case err == nil && a.Is4():
			s.item(No, "dns", word, dhcp4.what, dhcp4.remedy)
		case err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.Is4In6():
			s.item(No, "dns", word, fmt.Sprintf("%q is no name server's address", printable(word)), "write its IPv6 address")
		default:
			dns = append(dns, fmt.Sprintf("%q", a))
			s.item(Yes, "dns", word, at+" dns", "")
		}
	}
	switch {
	case !s.on("ra_dns", true):
		key("dns = []")
	case len(dns) > 0:
		key("dns = [%s]", strings.Join(dns, ", "))
	case s.on("dns_service", true):
		for _, p := range i.link.addresses {
			if a := p.Addr(); a.Is6() && !a.IsLinkLocalUnicast() && c.dns64 == nil {
				key("dns = [%q]", a)
				s.differs("dns_service", at+" dns: the router itself; a name server has to answer there, like dnsmasq", "[dns64] is a name server, too")
				break
			}
		}
	}
	var search []string
	words := s.words("domain")
	if len(words) == 0 && domain != "" {
		words = []string{domain}
	}
	for _, word := range words {
		if !isDomain(word) {
			s.item(No, "domain", word, fmt.Sprintf("%q is no domain", printable(word)), "like example.net")
			continue
		}
		search = append(search, fmt.Sprintf("%q", word))
		s.item(Yes, "domain", word, at+" search", "")
	}
	if len(search) > 0 {
		key("search = [%s]", strings.Join(search, ", "))
	}
}

func isDomain(text string) bool {
	if len(text) > 253 || text == "" {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) {
			return false
		}
	}
	return true
}
