// Package firewall says who may connect to whom: zones of interfaces, what leads from
// one to another, source NAT towards providers, port forwards and rules. Sections
// [zone.NAME] and [firewall] of weft.toml ask for it; nftables does the work, in one
// table that weft owns.
package firewall

import (
	"net/netip"

	"weft/internal/config"
)

// Zone is [zone.NAME].
type Zone struct {
	Kind       Kind           `toml:"kind" enum:"wan,lan,guest" example:"\"lan\"" doc:"What the zone is: wan is the Internet, lan a network that is trusted, guest one that only reaches the Internet. The other keys have their defaults by it. Default: NAME, if it is one of the three."`
	Interfaces []string       `toml:"interfaces" example:"[\"lan\"]" doc:"The NAMEs of the interfaces in the zone."`
	Devices    []string       `toml:"devices" example:"[\"l2tp-main\"]" doc:"Devices without an [interface.NAME] in the zone, as weft's own for subscribers. A * at the end stands for any rest of the name."`
	To         []string       `toml:"to" example:"[\"wan\"]" doc:"The zones to which hosts of this zone may open connections. Default: lan to all others, guest to all of kind wan, wan to none."`
	Services   []string       `toml:"services" also:"input" example:"[\"dns\", \"tcp/443\"]" doc:"What hosts of this zone reach on the router itself: all, or names and ports: ssh, dns, dhcp, dhcpv6, ntp, http, https, l2tp, mdns, snmp, wireguard, tcp/PORT, udp/PORT, tcp/PORT-PORT. ICMP is let in as RFC 4890 says. Default: lan all, guest dns, dhcp and dhcpv6, wan none."`
	Isolated   bool           `toml:"isolated" example:"false" doc:"Interfaces of the zone do not reach each other through the router. Default: true for wan and guest."`
	Masquerade bool           `toml:"masquerade" also:"nat,snat" example:"true" doc:"Connections that leave by this zone get the router's own IPv4 address (NAT44), if their source is in masquerade_sources. Default: true for wan."`
	Sources    []netip.Prefix `toml:"masquerade_sources" ip:"4" example:"[\"10.0.0.0/8\"]" doc:"The IPv4 sources that masquerade is for. Default: the private ones (RFC 1918, RFC 6598); public addresses keep themselves."`
	ClampMSS   bool           `toml:"tcp_mss_clamp" example:"true" doc:"The MSS of TCP connections through this zone fits the MTU of the way. Default: true for wan."`
	Bogons     bool           `toml:"bogons" example:"false" doc:"Packets from the zone with a source that is reserved, or private and of no network of this router, are dropped."`
}

// Kind is what a zone is.
type Kind string

const (
	WAN   Kind = "wan"
	LAN   Kind = "lan"
	Guest Kind = "guest"
)

// Config is [firewall].
type Config struct {
	Forwards []Forward `toml:"port_forwards" also:"redirects" example:"[{ name = \"web\", protocol = \"tcp\", port = \"443\", to = \"192.168.1.10\" }]" doc:"IPv4 ports of the router's addresses that lead to hosts behind it."`
	Pinholes []Pinhole `toml:"pinholes" example:"[{ name = \"web\", protocol = \"tcp\", ports = [\"443\"], to = \"::10\" }]" doc:"IPv6 hosts that connections from zones of kind wan may reach."`
	Rules    []Rule    `toml:"rules" example:"[{ name = \"printer\", from = \"lan\", to = \"wan\", macs = [\"02:00:00:00:00:07\"], action = \"reject\" }]" doc:"Exceptions from what the zones say. They apply to new connections, in the order of the list; the first that matches decides."`
}

// Forward is a port forward.
type Forward struct {
	Name     string         `toml:"name" required:"true" example:"\"web\"" doc:"A name, for weft show firewall."`
	Protocol Protocol       `toml:"protocol" enum:"tcp,udp,both" example:"\"tcp\"" doc:"tcp, udp or both. Default: tcp."`
	Port     string         `toml:"port" required:"true" also:"ports" example:"\"443\"" doc:"The port of the router, or a range as 5000-5010."`
	To       string         `toml:"to" required:"true" example:"\"192.168.1.10:8443\"" doc:"The host, with a port if that is another one."`
	From     []netip.Prefix `toml:"from" ip:"4,bare" example:"[\"203.0.113.0/24\"]" doc:"Only these sources. Default: all."`
	NoLoop   bool           `toml:"no_hairpin" example:"false" doc:"Hosts behind the router do not reach the forward by the router's outer address."`
}

// Pinhole opens an IPv6 host.
type Pinhole struct {
	Name     string         `toml:"name" required:"true" example:"\"web\"" doc:"A name, for weft show firewall."`
	Protocol Protocol       `toml:"protocol" enum:"tcp,udp,both" example:"\"tcp\"" doc:"tcp, udp or both. Default: tcp."`
	Ports    []string       `toml:"ports" also:"port" example:"[\"443\", \"5000-5010\"]" doc:"The ports and ranges. Default: all."`
	To       netip.Addr     `toml:"to" required:"true" ip:"6" example:"\"::10\"" doc:"The host. An address whose first 64 bits are zero is an interface identifier: it fits in every prefix, also after the provider has assigned another one."`
	From     []netip.Prefix `toml:"from" ip:"6,bare" example:"[\"2001:db8:9::/48\"]" doc:"Only these sources. Default: all."`
}

// Rule is an exception.
type Rule struct {
	Name         string         `toml:"name" required:"true" example:"\"printer\"" doc:"A name, for weft show firewall and log lines."`
	From         string         `toml:"from" required:"true" example:"\"lan\"" doc:"The zone that connections come from."`
	To           string         `toml:"to" example:"\"wan\"" doc:"The zone that they go to, or router for the router itself. Default: any zone."`
	Protocol     Protocol       `toml:"protocol" enum:"tcp,udp,both,icmp,any" example:"\"tcp\"" doc:"tcp, udp, both of them, icmp (ICMPv6 too) or any. Default: any; both if there are ports."`
	Ports        []string       `toml:"ports" also:"port,dest_port" example:"[\"80\", \"8000-8010\"]" doc:"The destination ports and ranges."`
	Sources      []netip.Prefix `toml:"sources" also:"source,src" ip:"bare" example:"[\"192.168.1.7\"]" doc:"The sources, of one or both families."`
	Destinations []netip.Prefix `toml:"destinations" also:"destination,dest" ip:"bare" example:"[\"198.51.100.0/24\"]" doc:"The destinations."`
	MACs         []string       `toml:"macs" also:"mac" example:"[\"02:00:00:00:00:07\"]" doc:"The link addresses of the sources."`
	Action       Action         `toml:"action" also:"target" enum:"accept,reject,drop" example:"\"reject\"" doc:"accept, reject (with an answer to the sender) or drop."`
	Log          bool           `toml:"log" example:"false" doc:"Log new connections that the rule matches to the kernel's log, ten a second at most."`
}

// Protocol is what a forward or rule is for.
type Protocol string

const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	Both Protocol = "both"
	ICMP Protocol = "icmp"
	Any  Protocol = "any"
)

// Action is what a rule does.
type Action string

const (
	Accept Action = "accept"
	Reject Action = "reject"
	Drop   Action = "drop"
)

// Sections is what config.Load needs to read [firewall] and [zone.NAME].
func Sections() []config.Section {
	return []config.Section{
		{
			Name:  "firewall",
			Doc:   "Port forwards, pinholes and rules between zones.",
			New:   func(string) any { return &Config{} },
			Check: func(c *config.Checker, _ string, s any) { check(c, s.(*Config)) },
		},
		{
			Name: "zone", Named: true,
			Doc:   "A zone of the firewall: interfaces whose hosts may do the same. Interfaces in no zone are not filtered.",
			New:   func(name string) any { return &Zone{Kind: kindOf(name)} },
			Check: func(c *config.Checker, name string, s any) { checkZone(c, name, s.(*Zone)) },
		},
	}
}

func kindOf(name string) Kind {
	switch k := Kind(name); k {
	case WAN, LAN, Guest:
		return k
	}
	return ""
}

// From returns [firewall] of f, with defaults where the file is silent.
func From(f *config.File) *Config {
	c, _ := f.Get("firewall", "").(*Config)
	if c == nil {
		return &Config{}
	}
	return c
}

// ZoneFrom returns the section [zone.NAME] of f, nil if there is none.
func ZoneFrom(f *config.File, name string) *Zone {
	z, _ := f.Get("zone", name).(*Zone)
	return z
}
