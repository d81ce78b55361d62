package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// foreign is what another program does for an interface's protocol.
type foreign struct{ what, remedy string }

// protocols are those that weft has not, by what makes their devices.
var protocols = map[string]foreign{
	"dhcp":      {"weft does not ask for addresses by DHCP", "keep a DHCP client on %s: your network manager's, or dhclient"},
	"dhcpv6":    {"weft asks for prefixes by DHCPv6 over [l2tp_client.NAME] only", "keep a DHCPv6 client on %s (systemd-networkd with DHCPPrefixDelegation=, or odhcp6c); router advertisements for the uplink's own address need nothing"},
	"pppoe":     {"weft is no PPPoE client", "run pppd with its PPPoE plugin, with ifname %s"},
	"pppoa":     {"weft is no PPPoA client", "run pppd, with ifname %s"},
	"ppp":       {"weft makes PPP sessions over L2TP only", "run pppd, with ifname %s"},
	"3g":        {"weft does not drive modems", "run ModemManager or pppd, which make %s"},
	"pptp":      {"weft is no PPTP client", "[l2tp_client.NAME] if the server has L2TP; else run pppd, with ifname %s"},
	"wireguard": {"weft does not make WireGuard devices", "make %s by wg-quick or your network manager, from the same keys and peers; weft gives it its addresses"},
	"6in4":      {"weft has no IPv6 in IPv4 (6in4)", "make %s by your network manager"},
	"6to4":      {"weft has no 6to4", "take another IPv6 uplink: relays of 6to4 are gone (RFC 7526)"},
	"6rd":       {"weft has no 6rd", "make %s by your network manager, as a sit tunnel with 6rd-prefix"},
	"dslite":    {"weft has no DS-Lite", "make %s by your network manager: ip -6 tunnel, mode ip4ip6; if the provider has NAT64, [nat64.NAME] with mode = \"clat\" replaces it"},
	"map":       {"weft has neither MAP-E nor MAP-T nor lw4o6", "keep an OpenWrt router in front; if the provider has NAT64, [nat64.NAME] with mode = \"clat\" replaces it"},
	"ipip":      {"weft has no IP in IP tunnels", "make %s by your network manager"},
	"gre":       {"weft has no GRE for IP packets, only for Ethernet", "make %s by your network manager; between two routers of yours [pseudowire.NAME] with kind = \"gretap\" does the same"},
	"vti":       {"weft has no IPsec interfaces", "make %s by strongSwan and ip link"},
	"xfrm":      {"weft has no IPsec interfaces", "make %s by strongSwan and ip link"},

	"batadv":        {"weft has no mesh protocol", "make %s by batctl, with the same settings"},
	"batadv_hardif": {"weft has no mesh protocol", "add the device by batctl meshif MASTER interface add"},
	"batadv_vlan":   {"weft has no mesh protocol", "set it by batctl"},
	"gluon_wired":   {"weft has no mesh protocol", "keep Gluon on the mesh node; weft is for the router behind it"},
	"gluon_mesh":    {"weft has no mesh protocol", "keep Gluon on the mesh node; weft is for the router behind it"},
	"gluon_bat0":    {"weft has no mesh protocol", "keep Gluon on the mesh node; weft is for the router behind it"},
	"qmi":           {"weft does not drive modems", "run ModemManager, or uqmi"},
	"mbim":          {"weft does not drive modems", "run ModemManager, or umbim"},
	"ncm":           {"weft does not drive modems", "run ModemManager"},
	"wwan":          {"weft does not drive modems", "run ModemManager"},
	"modemmanager":  {"weft does not drive modems", "run ModemManager"},
	"relay":         {"weft is no relay between two links with one prefix", "give each link a prefix of its own"},
	"sstp":          {"weft is no SSTP client", "keep the client that makes %s"},
	"openconnect":   {"weft is no OpenConnect client", "keep the client that makes %s"},
	"vpnc":          {"weft is no VPNC client", "keep the client that makes %s"},
}

var sameProtocol = map[string]string{
	"wireguard_vpn": "wireguard", "amneziawg": "wireguard", "grev6": "gre", "vti6": "vti", "ipip6": "ipip", "ppp0e": "pppoe", "mape": "map", "mapt": "map", "lw4o6": "map",
}

// makeLinks gives each device with an interface one [interface.NAME].
func (c *converter) makeLinks() {
	c.linkOf, c.names, c.wireOf = map[string]*link{}, map[string]string{}, map[string]string{}
	for _, w := range c.wires {
		c.names[w.name], c.wireOf[w.device] = w.device, w.name
	}
	c.made = map[string]bool{}
	for _, i := range c.ifaces {
		c.made[i.device] = c.made[i.device] || i.proto == "l2tp"
	}
	c.spaces = newSpaces()
	for _, i := range c.ifaces {
		if i.loopback() {
			i.s.rest(Yes, "the kernel has the loopback", "")
			continue
		}
		if i.translator() {
			continue
		}
		c.makeLink(i)
		if i.link != nil {
			c.takeAddresses(i)
		}
		c.judge(i)
	}
}

// translator reports whether an interface is the device of a translator, which weft makes.
func (i *iface) translator() bool {
	return i.proto == "464xlat" || i.proto == "tayga" || i.proto == "jool_clat"
}

func (c *converter) makeLink(i *iface) {
	switch {
	case i.device == "" || i.wire() || i.proto == "batadv_hardif" || i.proto == "gluon_mesh" || c.made[i.device]:
		return
	case c.linkOf[i.device] != nil:
		i.link = c.linkOf[i.device]
	default:
		name := i.name
		if c.names[name] != "" && c.names[name] != i.device || c.nameOfPort(name, i.device) {
			name += "-net" // the pseudowire, or a bridge's port, has that name
		}
		i.link = &link{name: name, device: i.device, ethernet: i.ethernet}
		c.links, c.linkOf[i.device] = append(c.links, i.link), i.link
		if c.names[name] == "" {
			c.names[name] = i.device
		}
	}
	i.link.ifaces = append(i.link.ifaces, i)
}

// nameOfPort reports whether a name is that of a device, other than this one, which is
// a port: there it would stand for the interface.
func (c *converter) nameOfPort(name, device string) bool {
	return name != device && c.ports[name]
}

// takeAddresses takes what no earlier interface has.
func (c *converter) takeAddresses(i *iface) {
	l := i.link
	what := fmt.Sprintf("[interface.%s] addresses", l.name)
	for _, g := range i.addresses {
		if !g.s.judged(g.option) {
			g.s.yes(g.option, what)
		}
		if g.option == "ipaddr" && !g.s.judged("netmask") {
			g.s.yes("netmask", what)
		}
		if c.ports[i.device] {
			g.s.no(g.option, fmt.Sprintf("%s is a port of a bridge: what arrives there goes to the bridge", i.device), "give the address to the bridge")
			continue
		}
		if other := c.spaces.taken(g.prefix, l.name); other != "" {
			g.s.no(g.option, fmt.Sprintf("%s overlaps an address of [interface.%s]", g.prefix, other), "give each link a subnet of its own")
			continue
		}
		c.spaces.take(g.prefix, l.name)
		l.addresses = append(l.addresses, g.prefix)
	}
}

// spaces are the subnets of interfaces, to find those that overlap in time that does not
// grow with their number.
type spaces struct {
	single map[netip.Addr]string   // each address
	subnet map[netip.Prefix]string // each subnet
	above  map[netip.Prefix]string // each prefix that holds one
}

func newSpaces() *spaces {
	return &spaces{map[netip.Addr]string{}, map[netip.Prefix]string{}, map[netip.Prefix]string{}}
}

func (s *spaces) take(p netip.Prefix, name string) {
	s.single[p.Addr()] = name
	if p.IsSingleIP() || p.Addr().IsLinkLocalUnicast() {
		return
	}
	s.subnet[p.Masked()] = name
	for bits := p.Bits() - 1; bits > 0; bits-- {
		holds := netip.PrefixFrom(p.Addr(), bits).Masked()
		if s.above[holds] != "" {
			return // and so have all that hold it
		}
		s.above[holds] = name
	}
}

// taken returns the interface whose address or subnet p would collide with. Link-local
// subnets are the same on every link, and several addresses of one subnet may be on one.
func (s *spaces) taken(p netip.Prefix, name string) string {
	if p.Addr().IsLinkLocalUnicast() {
		return ""
	}
	if other := s.single[p.Addr()]; other != "" {
		return other
	}
	if p.IsSingleIP() {
		return ""
	}
	for bits := p.Bits(); bits > 0; bits-- {
		if other := s.subnet[netip.PrefixFrom(p.Addr(), bits).Masked()]; other != "" && other != name {
			return other
		}
	}
	if other := s.above[p.Masked()]; other != "" && other != name {
		return other
	}
	return ""
}

// judge says what becomes of the lines of an interface that are not about addresses.
func (c *converter) judge(i *iface) {
	s, l := i.s, i.link
	protocol := i.proto
	if same := sameProtocol[protocol]; same != "" {
		protocol = same
	}
	device := cmpOr(i.device, "the device")
	at := fmt.Sprintf("[interface.%s]", i.name)
	if l != nil {
		at = fmt.Sprintf("[interface.%s]", l.name)
	}
	for _, option := range []string{"device", "ifname"} {
		if len(s.words(option)) > 0 && !s.judged(option) && l != nil {
			s.yes(option, at+" device")
			if i.lower == "" {
				c.vlanDevice(s, option, l.device, "is the device of "+at, s.words(option)[0])
			} else {
				c.vlanDevice(s, option, i.lower, "is below "+i.device, s.words(option)[0])
			}
		}
	}
	if l != nil && c.devices[l.device] == nil && i.proto != "l2tp" && !i.wire() {
		c.mtuOf(s, l.device)
	}
	f, other := protocols[protocol]
	switch {
	case i.wire() || protocol == "l2tp":
		s.table(interfaceOptions, "DEVICE", device)
		s.rest(No, "weft has no such setting for "+at, "see docs/reference/weft.toml.md")
	case other:
		remedy := f.remedy
		if strings.Contains(remedy, "%s") {
			remedy = fmt.Sprintf(remedy, device)
		}
		if protocol == "6in4" {
			remedy += c.sit(i)
		}
		if !s.judged("proto") {
			s.no("proto", f.what, remedy)
		}
		if !pppProtocols[protocol] {
			for _, name := range s.Order { // such as the login at a broker of tunnels
				if interfaceOptions[name] == ppp && !s.judged(name) {
					s.no(name, f.what, remedy)
				}
			}
		}
		if l != nil {
			s.yes("", at)
		}
		s.table(interfaceOptions, "DEVICE", device)
		s.rest(No, f.what, remedy)
	case slices.Contains([]string{"static", "none", "dhcp"}, protocol):
		c.judgeStatic(i, at)
	default:
		s.rest(No, fmt.Sprintf("weft does not know the protocol %s", printable(i.proto)), "make the device by the program that does, and name it as interface.NAME.device")
	}
}

func (c *converter) judgeStatic(i *iface, at string) {
	s := i.s
	if i.link == nil {
		s.rest(No, "no device is named here: Wi-Fi has it, or another package", "add [interface."+i.name+"] with the device's name, once there is one")
		return
	}
	s.yes("", at)
	s.yes("proto", at)
	s.table(interfaceOptions, "DEVICE", i.device)
	for _, option := range []string{"gateway", "ip6gw"} {
		if s.has(option) {
			s.no(option, "the import does not write default routes", fmt.Sprintf("add [uplink.%s] with gateways = [%q]", i.name, printable(s.value(option))))
		}
	}
	s.rest(No, "weft has no such setting of an interface", "set it by your network manager, if it is needed")
}

// sit is the command that makes a 6in4 tunnel.
func (c *converter) sit(i *iface) string {
	local := "any"
	if a := c.local(i, "ipaddr", false); a.IsValid() {
		local = a.String()
	}
	return fmt.Sprintf(", or: ip link add %s type sit local %s remote %s ttl %s mode ip6ip", i.device, local, printable(i.s.value("peeraddr")), printable(cmpOr(i.s.value("ttl"), "64")))
}
