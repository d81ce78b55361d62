package config_test

import (
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/features"
)

// What weft has not is answered by what does it, once, and no key below it is an
// error of its own.
func TestSectionsAndKeysOfOtherRoutersAreAnswered(t *testing.T) {
	for text, want := range map[string]string{
		"[nat44.main]\noutside = \"wan\"\n":             "NAT44",
		"[nftables]\npolicy = \"drop\"\n":               "[zone.NAME]",
		"[dhcp.lan]\nrange = \"x\"\n":                   "dnsmasq or Kea",
		"[bgp]\nasn = 65000\n":                          "FRR or BIRD",
		"[interface.wan]\ngateway = \"192.0.2.1\"\n":    "[uplink.NAME]",
		"[interface.wan]\nvlan = 7\n":                   "VLAN device",
		"[interface.wan]\nmtu = 1500\nvlan_id = 7\n":    "VLAN device",
		"[interface.wan]\ndhcp = true\n":                "DHCP client",
		"[gateway]\nvia = \"192.0.2.1\"\n":              "[uplink.NAME]",
		"[vlan.guests]\nid = 7\n":                       "interface.NAME.device",
		"[masquerade]\nout = \"wan\"\n":                 "NAT44",
		"[dhcp6_client.wan]\niaid = 1\n":                "network manager",
		"[ha]\npeer = \"x\"\n":                          "keepalived",
		"[gre.attic]\nremote = \"192.0.2.1\"\n":         "[pseudowire.NAME]",
		"[clat]\nprefix = \"x\"\n":                      "[nat64.NAME]",
		"[sqm.wan]\nrate = 5\n":                         "use tc",
		"[interface.wan]\nnetmask = \"255.0.0.0\"\n":    "192.0.2.1/24",
		"[wireguard.home]\nport = 51820\n":              "wg-quick",
		"[interface.lan]\nnat = true\nmtu = \"x\"\n":    "",
		"[router]\nforwarding = true\n[vrrp]\nid = 1\n": "keepalived",
	} {
		_, problems := config.Load("weft.toml", []byte(text), features.Sections())
		if want == "" {
			if len(problems) != 2 {
				t.Errorf("%q: %v", text, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Remedy, want) {
			t.Errorf("%q: %v, want one problem with the remedy %q", text, problems, want)
		}
	}
}
