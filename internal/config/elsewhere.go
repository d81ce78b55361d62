package config

// otherWords are words that users of other routers write as a section, and what to do
// about each here.
var otherWords = []struct {
	words  []string
	remedy string
}{
	{[]string{"filter", "rules", "rule", "acl", "zones"}, "[zone.NAME] and [firewall] are the firewall"},
	{[]string{"nftables", "nft", "iptables"}, "[zone.NAME] and [firewall] make a table of nftables; write your own beside it"},
	{[]string{"nat", "nat44", "nat66", "masquerade", "snat"}, "[zone.NAME] with kind = \"wan\" has NAT44; [nat64.NAME] translates between IPv6 and IPv4"},
	{[]string{"dnat", "portforward", "port_forward", "redirect"}, "[firewall] has port_forwards"},
	{[]string{"clat", "464xlat", "siit", "tayga", "jool", "map-t", "map-e", "dslite", "ds-lite"}, `[nat64.NAME] is the translator, with mode = "stateful", "stateless" or "clat"`},
	{[]string{"dhcp", "dhcp_server", "dhcpd", "dnsmasq", "kea"}, "[ra.NAME] serves DHCPv6; for DHCPv4 run dnsmasq or Kea"},
	{[]string{"dhcpv4", "dhcp4"}, "for DHCPv4 run dnsmasq or Kea"},
	{[]string{"dhcpv6", "dhcp6", "radvd", "slaac", "router_advertisement", "router_advertisements", "router-advert"}, "[ra.NAME] sends router advertisements and serves DHCPv6"},
	{[]string{"dhcp_client", "dhcp6_client", "dhcpv6_client", "dhcpcd", "pd", "prefix_delegation"}, "keep your network manager's DHCP client; [l2tp_client.NAME] requests prefixes over L2TP"},
	{[]string{"dns", "resolver", "nameserver", "unbound", "bind"}, "[dns64] is a name server"},
	{[]string{"bgp", "ospf", "ospf6", "isis", "rip", "frr", "bird"}, "run FRR or BIRD; [route] follows the kernel's routes"},
	{[]string{"babel", "babeld"}, "run babeld, FRR or BIRD; [route] follows the kernel's routes"},
	{[]string{"olsr", "batman", "bmx7", "mesh"}, "run the mesh's daemon; [route] follows the kernel's routes, and its device is interface.NAME.device"},
	{[]string{"gateway", "default_route", "default-gateway", "multiwan", "mwan3"}, "[uplink.NAME] makes default routes"},
	{[]string{"routes", "static_route", "static_routes", "static"}, "weft sets no static routes: set them by your network manager, or ip route; [uplink.NAME] makes default routes"},
	{[]string{"address", "addresses", "ip", "network", "networks", "lan", "wan", "device", "ethernet", "link"}, "write [interface.NAME] with device and addresses"},
	{[]string{"vlan", "vlans", "bond", "bonding", "lacp", "vrf"}, "make the device by your network manager, or ip link, and name it as interface.NAME.device"},
	{[]string{"pppoe", "ppp", "pppd"}, "run pppd or accel-ppp; name its device as interface.NAME.device"},
	{[]string{"wireguard", "wg", "openvpn", "vpn", "ipsec", "strongswan", "tinc"}, "make the device by wg-quick, its daemon or your network manager, and name it as interface.NAME.device"},
	{[]string{"l2tp", "l2tpv2"}, "[lns.NAME] is the server of subscribers, [l2tp_client.NAME] the client; [pseudowire.NAME] carries Ethernet over L2TPv3"},
	{[]string{"l2tpv3", "gre", "gretap", "vxlan", "tunnel", "eoip"}, "[pseudowire.NAME] carries Ethernet over L2TPv3, GRE or VXLAN"},
	{[]string{"sit", "6in4", "6rd", "6to4", "ipip", "he", "sixxs"}, "make the tunnel by your network manager, or ip tunnel, and name it as interface.NAME.device"},
	{[]string{"vrrp", "keepalived", "carp", "ha", "cluster"}, "run keepalived or FRR; [session_sync] synchronises the sessions"},
	{[]string{"radius", "aaa", "subscriber", "subscribers", "user", "users"}, "users and RADIUS servers are keys of [lns.NAME]"},
	{[]string{"qos", "shaper", "shaping", "sqm", "tc", "traffic_control"}, "use tc, or rate limits of a subscriber"},
	{[]string{"wifi", "wireless", "wlan", "hostapd"}, "run hostapd"},
	{[]string{"flowtable", "flow_offload", "conntrack", "fastpath"}, "[offload] forwards established connections past the firewall"},
	{[]string{"blocklist", "ban", "fail2ban", "antispoof", "rp_filter", "bogons"}, "[block] has block lists, [guard.NAME] drops at ingress"},
	{[]string{"xdp", "ebpf", "bpf"}, `set hook = "xdp" in [interface.NAME]`},
	{[]string{"system", "hostname", "global", "general", "options"}, "[router] has the name, forwarding and the level of the log"},
	{[]string{"ssh", "ntp", "snmp", "cron", "lldp"}, "weft does not run it: install its own daemon"},
	{[]string{"log", "logging", "syslog"}, "router.log is the level; systemd's journal keeps the log"},
	{[]string{"prometheus", "monitoring", "telemetry", "exporter"}, "[metrics] serves Prometheus"},
	{[]string{"multiwan", "mwan", "mwan3", "multipath"}, "weft does not choose between uplinks: set the routes by your routing daemon, or ip rule"},
}

// otherSection returns the remedy for a section that users of other routers look for and
// weft does not have.
func otherSection(name string) (remedy string, known bool) {
	for _, e := range otherWords {
		for _, w := range e.words {
			if w == name {
				return e.remedy, true
			}
		}
	}
	return "", false
}

// otherKeys are the remedies for keys of a section that it has not.
var otherKeys = map[string]map[string]string{
	"interface": {
		"gateway":         "[uplink.NAME] has the gateways of the provider",
		"dhcp":            "weft does not ask for addresses on an interface: keep your network manager's DHCP client there",
		"vlan":            "make the VLAN device by your network manager, or ip link, and name it as device",
		"vlan_id":         "make the VLAN device by your network manager, or ip link, and name it as device",
		"vrf":             "set it by ip link set DEVICE master VRF; weft follows it",
		"dns":             "weft does not set this host's name servers; [dns64] has forwarders",
		"nat":             "[zone.NAME] has masquerade",
		"masquerade":      "[zone.NAME] has masquerade",
		"type":            "make the device by your network manager, or ip link, and name it as device",
		"parent":          "make the VLAN device by your network manager, or ip link, and name it as device",
		"description":     "write a comment: # behind the line",
		"address":         "write addresses, a list with prefix lengths",
		"ip":              "write addresses, a list with prefix lengths",
		"ipaddr":          "write addresses, a list with prefix lengths",
		"ipv4":            "write addresses, a list with prefix lengths",
		"ipv6":            "write addresses, a list with prefix lengths",
		"netmask":         "write the length behind the address in addresses, like 192.0.2.1/24",
		"metric":          "[uplink.NAME] makes default routes, and has metric",
		"accept_ra":       "weft keeps router advertisements in force where the host took them; set the sysctl to 0 elsewhere",
		"dhcp4":           "weft does not ask for addresses on an interface: keep your network manager's DHCP client there",
		"dhcp6":           "weft does not ask for addresses on an interface: keep your network manager's DHCP client there",
		"nameserver":      "weft does not set this host's name servers; [dns64] has forwarders",
		"bridge":          "write [bridge.NAME] with ports, or make the bridge by your network manager and name it as device",
		"zone":            "[zone.NAME] has interfaces",
		"enabled":         "an interface that is listed is up; leave the section out to disable it",
		"mac":             "set it by ip link, or your network manager",
		"ipv6_forwarding": "router.forwarding is for the whole host",
	},
}
