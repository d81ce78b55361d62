package openwrt

// Options whose verdict does not depend on the rest of the file.

var nameServers = mark{No, "weft does not set this host's name servers", "set them in /etc/resolv.conf, or by your network manager; [dns64] has forwarders"}

var client4 = mark{No, "belongs to the DHCP client", "set it in the DHCP client of the new machine"}

var ppp = mark{No, "belongs to the PPP client", "set it in pppd's options"}

var wireguardKeys = mark{No, "belongs to WireGuard's device", "take it over to wg-quick or your network manager"}

var policy = mark{No, "weft sets no routes but its own", "by your network manager, or ip route and ip rule"}

// pppProtocols are those with a login by PPP.
var pppProtocols = map[string]bool{"pppoe": true, "pppoa": true, "ppp": true, "3g": true, "pptp": true}

// interfaceOptions are those of config interface.
var interfaceOptions = map[string]mark{
	"auto":       {Yes, "interfaces of weft are up from the start", ""},
	"force_link": {Yes, "weft adds addresses whether or not there is a carrier", ""},
	"zone":       {No, "the import does not write zones", fw4},
	"delegate":   {Yes, "weft delegates what is in the file", ""},
	"broadcast":  {Yes, "the kernel works it out", ""},
	"ipv6":       {No, "weft leaves IPv6 of a device as it is", "set net.ipv6.conf.DEVICE.disable_ipv6 by sysctl"},

	"dns": nameServers, "dns_search": nameServers, "dns_metric": nameServers, "peerdns": nameServers,
	"metric": policy, "ip4table": policy, "ip6table": policy, "defaultroute": policy, "classlessroute": policy, "customroutes": policy, "sourcefilter": policy, "multipath": policy,
	"hostname": client4, "clientid": client4, "vendorid": client4, "reqopts": client4, "sendopts": client4, "norelease": client4, "defaultreqopts": client4, "reqaddress": client4,
	"reqprefix": client4, "noslaaconly": client4, "forceprefix": client4, "extendprefix": client4, "noacceptreconfig": client4, "iface_map": client4, "iface_464xlat": client4, "iface_dslite": client4, "userclass": client4, "norequestoptions": client4,
	"username": ppp, "password": ppp, "ac": ppp, "service": ppp, "host_uniq": ppp, "pppd_options": ppp, "demand": ppp, "persist": ppp, "maxfail": ppp, "holdoff": ppp, "pppname": ppp, "unnumbered": ppp,
	"private_key": wireguardKeys, "listen_port": wireguardKeys, "fwmark": wireguardKeys, "nohostroute": wireguardKeys, "peers": wireguardKeys,
	"macaddr": {No, "weft does not set a device's link address", "ip link set dev DEVICE address ADDRESS, or by your network manager"},
	"mtu6":    {No, "weft sets one MTU, for IPv4 and IPv6", "set net.ipv6.conf.DEVICE.mtu by sysctl, or [ra.NAME] mtu for hosts"},

	"ip6weight":     {No, "weft assigns prefixes in the order of the file", "give the interface its address in weft.toml"},
	"ip6deprecated": {No, "weft has no deprecated addresses", "leave the address out"},
	"igmp_snooping": {No, "belongs to a bridge", "nothing to do"},
	"stp":           {No, "belongs to a bridge", "nothing to do"},
	"label":         {Yes, "a name for people", ""},
}

// deviceOptions are those of config device.
var deviceOptions = map[string]mark{
	"macaddr":    interfaceOptions["macaddr"],
	"mtu6":       interfaceOptions["mtu6"],
	"ipv6":       interfaceOptions["ipv6"],
	"rpfilter":   {No, "weft does not set rp_filter", "set it by sysctl, or [guard.NAME] reverse_path = \"strict\" or \"loose\""},
	"txqueuelen": {No, "weft does not set a device's queue", "ip link set dev DEVICE txqueuelen N"},
	"enabled":    {Yes, "an interface that is listed is up", ""},
}

// bridgeOptions are those of a bridge's device.
var bridgeOptions = map[string]mark{
	"multicast_querier": {No, "weft's bridges send no queries", "leave multicast_snooping = false, unless another router of the link sends them"},
	"ageing_time":       {No, "weft's bridges age link addresses after the kernel's 300 s", "set it by ip link set dev BRIDGE type bridge ageing_time"},
	"priority":          {Yes, "for spanning tree, which weft's bridges do not have", ""},
	"forward_delay":     {Yes, "for spanning tree, which weft's bridges do not have", ""},
	"hello_time":        {Yes, "for spanning tree, which weft's bridges do not have", ""},
	"max_age":           {Yes, "for spanning tree, which weft's bridges do not have", ""},
}

const fw4 = "write [zone.NAME] and [firewall]; or keep rules of nftables: fw4 print on the OpenWrt router gives them"
