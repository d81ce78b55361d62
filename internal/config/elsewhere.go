package config

// otherSections are the remedies for sections that users of other routers look
// for and weft has not.
var otherSections = map[string]string{
	"nftables":  "[zone.NAME] and [firewall] make a table of nftables; write your own beside it",
	"nat":       "[zone.NAME] with kind = \"wan\" has NAT44; [nat64.NAME] translates between IPv6 and IPv4",
	"nat44":     "[zone.NAME] with kind = \"wan\" has NAT44; [nat64.NAME] translates between IPv6 and IPv4",
	"dhcp":      "[ra.NAME] serves DHCPv6; for DHCPv4 run dnsmasq or Kea",
	"dhcpv4":    "for DHCPv4 run dnsmasq or Kea",
	"dhcpv6":    "[ra.NAME] serves DHCPv6",
	"dns":       "[dns64] is a name server",
	"rule":      "[firewall] has rules",
	"redirect":  "[firewall] has port_forwards",
	"bgp":       "run FRR or BIRD; [route] follows the kernel's routes",
	"ospf":      "run FRR or BIRD; [route] follows the kernel's routes",
	"babel":     "run babeld, FRR or BIRD; [route] follows the kernel's routes",
	"vlan":      "make the VLAN device by your network manager, or ip link, and name it as interface.NAME.device",
	"pppoe":     "run pppd or accel-ppp; name its device as interface.NAME.device",
	"wireguard": "make the device by wg-quick or your network manager, and name it as interface.NAME.device",
	"vrrp":      "run keepalived or FRR; weft synchronises the sessions",
	"qos":       "use tc, or rate limits of a subscriber",
	"wifi":      "run hostapd",
	"wireless":  "run hostapd",
	"log":       "router.log is the level; systemd's journal keeps the log",
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
		"enabled":         "an interface that is listed is up; leave the section out to disable it",
		"mac":             "set it by ip link, or your network manager",
		"ipv6_forwarding": "router.forwarding is for the whole host",
	},
}
