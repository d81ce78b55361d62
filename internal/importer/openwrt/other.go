package openwrt

import (
	"fmt"
	"strings"
)

// system takes the router's name.
func (c *converter) system() {
	for _, s := range c.of("system", "system") {
		name := s.value("hostname")
		if hostName(name) {
			c.router = name
			s.yes("hostname", "[router] name")
		} else {
			s.no("hostname", fmt.Sprintf("%q is no host name", printable(name)), "letters, digits and hyphens (RFC 1123)")
		}
		s.rest(No, "weft does not set the host's clock, log or console", "set them by systemd: timedatectl, journald.conf")
	}
	if p := c.packages["system"]; p != nil {
		for _, s := range p.sections {
			s.rest(No, "belongs to the host, not to the router", "set it by the new machine's own programs")
		}
	}
}

func hostName(text string) bool {
	return text != "" && len(text) <= 63 && text[0] != '-' && text[len(text)-1] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}

// wireless adds Wi-Fi devices with a name to the bridges of their networks. The radio
// itself is left to hostapd.
func (c *converter) wireless() {
	const hostapd = "run hostapd with the same settings"
	for _, s := range c.of("wireless", "wifi-iface") {
		if s.on("disabled", false) {
			s.rest(Yes, "disabled, and left out", "")
			continue
		}
		for _, name := range s.words("network") {
			i := c.byName[name]
			device := c.rename(s.value("ifname"))
			switch {
			case i == nil:
				s.item(No, "network", name, fmt.Sprintf("interface %s is not in weft.toml", printable(name)), "nothing to do")
			case c.bridgeOf[i.device] == nil:
				if i.device == "" && i.proto != "batadv_hardif" && !i.wire() && deviceName(device) == "" {
					i.device = device
				}
				s.item(Yes, "network", name, "a device of interface "+name, "")
			case device == "":
				s.item(Differs, "network", name, fmt.Sprintf("the radio's device has no name here, so that it is no port of [bridge.%s]", i.device),
					`add { interface = "DEVICE", role = "infrastructure" } to ports, with the name that ip link shows; do not set bridge= in hostapd.conf`)
			default:
				c.addPort(c.bridgeOf[i.device], device, s, "network", name)
				s.item(Differs, "network", name, fmt.Sprintf("%s is a port of [bridge.%s]", device, i.device), "do not set bridge= in hostapd.conf")
			}
		}
		s.rest(No, "weft does not drive radios", hostapd)
	}
	if p := c.packages["wireless"]; p != nil {
		for _, s := range p.sections {
			s.rest(No, "weft does not drive radios", hostapd)
		}
	}
}

// keepers are packages of OpenWrt, and who does their work elsewhere.
var keepers = map[string]foreign{
	"batman-adv":      {"weft has no mesh protocol", "take the settings over to batctl"},
	"gluon":           {"belongs to Gluon's firmware", "keep Gluon on the mesh node; weft is for the router behind it"},
	"fastd":           {"weft is no fastd", "run fastd, and name its device in [interface.NAME] or in a bridge's ports"},
	"tunneldigger":    {"weft is no tunneldigger client", "between two routers of yours [pseudowire.NAME] with kind = \"l2tpv3\" is the same without a broker"},
	"olsrd":           {"weft has no routing protocol", "run olsrd; [route] follows the kernel's routes"},
	"babeld":          {"weft has no routing protocol", "run babeld; [route] follows the kernel's routes"},
	"qos":             {"weft has no queues", "set cake by tc"},
	"mwan3":           {"the import does not write uplinks", "add [uplink.NAME] for each, with gateways and probe: the first that works is used"},
	"pbr":             {"weft has no policy routing", "take the rules over to nftables and ip rule"},
	"banip":           {"belongs to banIP", "[block] has files and sets of nftables"},
	"openvpn":         {"weft is no OpenVPN", "run openvpn, and name its device in [interface.NAME]"},
	"dropbear":        {"belongs to the host", "the new machine's sshd"},
	"uhttpd":          {"belongs to the host", "weft has no web interface yet"},
	"luci":            {"belongs to the host", "weft has no web interface yet"},
	"xl2tpd":          {"weft has no xl2tpd", "[lns.NAME] is a server of L2TP, [l2tp_client.NAME] a client"},
	"unbound":         {"weft is a name server for DNS64 only", "keep unbound"},
	"dhcp":            dhcpKeeper,
	"jool":            {"is no instance of Jool", "see weft import jool"},
	"https-dns-proxy": {"weft forwards over DNS and DNS over TLS", "[dns64] forwarders = [\"tls://ADDRESS#NAME\"]"},
	"network":         {"weft does not know this kind of section", "look for what it does in docs/reference/weft.toml.md"},
}

var dhcpKeeper = foreign{dhcp4.what, dhcp4.remedy}

// others gives what no other reader has judged a verdict.
func (c *converter) others() {
	for _, s := range c.of("network", "interface", "device", "bridge-vlan") {
		s.rest(No, "weft has no such setting", "see docs/reference/weft.toml.md")
	}
	for _, p := range c.order {
		f, known := keepers[p.name]
		for _, s := range p.sections {
			switch {
			case p.name == "network" && (strings.HasPrefix(s.Type, "wireguard_") || strings.HasPrefix(s.Type, "amneziawg_")):
				s.rest(No, "weft does not make WireGuard devices, nor their peers", wireguardKeys.remedy)
			case known:
				s.rest(No, f.what, f.remedy)
			case strings.HasPrefix(p.name, "gluon") || strings.HasPrefix(p.name, "autoupdater"):
				s.rest(No, keepers["gluon"].what, keepers["gluon"].remedy)
			default:
				s.rest(No, fmt.Sprintf("weft has no counterpart of the package %s", p.name), "run the program that it belongs to, if you need it")
			}
		}
	}
}
