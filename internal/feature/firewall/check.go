package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// services are the names that a zone's services may have.
var services = map[string][]string{
	"ssh": {"tcp/22"}, "dns": {"udp/53", "tcp/53"}, "dhcp": {"udp/67"}, "dhcpv6": {"udp/547"}, "ntp": {"udp/123"},
	"http": {"tcp/80"}, "https": {"tcp/443", "udp/443"}, "l2tp": {"udp/1701"}, "mdns": {"udp/5353"}, "snmp": {"udp/161"},
	"wireguard": {"udp/51820"},
}

const all = "all"

// ports is a range of ports, of one at least.
type ports struct{ first, last uint16 }

func (p ports) String() string {
	if p.first == p.last {
		return strconv.Itoa(int(p.first))
	}
	return fmt.Sprintf("%d-%d", p.first, p.last)
}

// portsOf reads a port or a range.
func portsOf(text string) (p ports, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || b < a {
		return p, false
	}
	return ports{uint16(a), uint16(b)}, true
}

// serviceOf returns the protocols and ports of a word of services.
func serviceOf(word string) (list []string, ok bool) {
	if list, ok = services[word]; ok {
		return list, true
	}
	protocol, port, _ := strings.Cut(word, "/")
	if _, ok := portsOf(port); ok && (protocol == "tcp" || protocol == "udp") {
		return []string{word}, true
	}
	return nil, false
}

func serviceNames() string {
	names := []string{all}
	for name := range services {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func checkZone(c *config.Checker, name string, z *Zone) {
	if z.Kind == "" && !c.Broken("kind") {
		c.Error("kind", fmt.Sprintf("says not what the zone %s is", name), `add kind = "wan" (the Internet), "lan" (trusted) or "guest"`)
	}
	if name == toRouter {
		c.Error("", "router is the router itself, in rules", "give the zone another name")
	}
	if len(z.Interfaces)+len(z.Devices) == 0 && !c.Broken("interfaces") && !c.Broken("devices") {
		c.Error("", "has no interfaces", `add interfaces = ["NAME"]`)
	}
	c.Interfaces("interfaces", z.Interfaces)
	for i, d := range z.Devices {
		stem := strings.TrimSuffix(d, "*")
		if what, remedy := config.DeviceNameFault(stem); what != "" || strings.ContainsAny(stem, `*"\`) {
			c.Error(fmt.Sprintf("devices[%d]", i), fmt.Sprintf("%q cannot be the name of a device", d), remedy)
		}
	}
	zones := c.File().Names("zone")
	for i, in := range z.Interfaces {
		if at := c.File().Interface(in); at != nil && strings.ContainsAny(at.Device, `*"\`) {
			c.Error(fmt.Sprintf("interfaces[%d]", i), fmt.Sprintf("nftables cannot name the device %q", at.Device), "give the device a name without *, quotes and backslashes (ip link set DEVICE name NAME)")
		}
		for _, other := range zones {
			if o := ZoneFrom(c.File(), other); other < name && slices.Contains(o.Interfaces, in) {
				c.Error(fmt.Sprintf("interfaces[%d]", i), fmt.Sprintf("%q is in [zone.%s] already", in, other), "an interface is in one zone")
			}
		}
	}
	for i, to := range z.To {
		switch {
		case !slices.Contains(zones, to):
			c.Error(fmt.Sprintf("to[%d]", i), fmt.Sprintf("there is no [zone.%s]", to), config.Suggest(to, zones))
		case to == name:
			c.Error(fmt.Sprintf("to[%d]", i), "is the zone itself", "whether its interfaces reach each other is isolated")
		}
	}
	for i, s := range z.Services {
		if _, ok := serviceOf(s); !ok && s != all {
			c.Error(fmt.Sprintf("services[%d]", i), fmt.Sprintf("%q is no service", s), "one of "+serviceNames()+", or a port as tcp/8080 or udp/5000-5010")
		}
	}
	if z.Kind == WAN && slices.Contains(z.Services, all) {
		c.Warn("services", "every host of the Internet reaches all services of the router", `name those that it may reach, as services = ["ssh"]`)
	}
}

// toRouter is the word for the router itself as the destination of a rule.
const toRouter = "router"

func check(c *config.Checker, s *Config) {
	zones := c.File().Names("zone")
	if c.Given("") && len(zones) == 0 {
		c.Error("", "there is no zone, so nothing is filtered", "add [zone.wan] and [zone.lan] with interfaces")
	}
	checkForwards(c, s)
	for i, p := range s.Pinholes {
		at := fmt.Sprintf("pinholes[%d]", i)
		checkName(c, at, p.Name)
		checkPorts(c, at+".ports", p.Ports)
		if p.To.IsValid() && (p.To.IsUnspecified() || p.To.IsMulticast() || p.To.IsLoopback()) {
			c.Error(at+".to", fmt.Sprintf("%s is not a host", p.To), "write its IPv6 address, or only the interface identifier, as ::10")
		}
		if p.Protocol == ICMP || p.Protocol == Any {
			c.Error(at+".protocol", fmt.Sprintf("is %s", p.Protocol), "tcp, udp or both")
		}
	}
	for i, r := range s.Rules {
		checkRule(c, fmt.Sprintf("rules[%d]", i), r, zones)
	}
}

func checkName(c *config.Checker, at, name string) {
	if c.Given(at+".name") && (name == "" || len(name) > 60 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' })) {
		c.Error(at+".name", fmt.Sprintf("%q cannot be a name", name), "1 to 60 printable ASCII characters without quotes and backslashes")
	}
}

func checkPorts(c *config.Checker, at string, list []string) {
	for i, text := range list {
		if _, ok := portsOf(text); !ok {
			c.Error(fmt.Sprintf("%s[%d]", at, i), fmt.Sprintf("%q is neither a port nor a range", text), `write "443" or "5000-5010"`)
		}
	}
}

func checkForwards(c *config.Checker, s *Config) {
	for i, f := range s.Forwards {
		at := fmt.Sprintf("port_forwards[%d]", i)
		checkName(c, at, f.Name)
		p, ok := portsOf(f.Port)
		if !ok && c.Given(at+".port") {
			c.Error(at+".port", fmt.Sprintf("%q is neither a port nor a range", f.Port), `write "443" or "5000-5010"`)
		}
		to, ok2 := targetOf(f.To)
		switch {
		case !c.Given(at + ".to"):
		case !ok2:
			c.Error(at+".to", fmt.Sprintf("%q is no IPv4 host", f.To), `write "192.168.1.10", or with a port "192.168.1.10:8443"; IPv6 hosts have pinholes`)
		case to.Port() != 0 && ok && p.first != p.last:
			c.Error(at+".to", "a range of ports keeps its ports", fmt.Sprintf("write %q", to.Addr().String()))
		}
		if f.Protocol == ICMP || f.Protocol == Any {
			c.Error(at+".protocol", fmt.Sprintf("is %s", f.Protocol), "tcp, udp or both")
		}
		for j, o := range s.Forwards[:i] {
			q, ok2 := portsOf(o.Port)
			if ok && ok2 && p.first <= q.last && q.first <= p.last && shareProtocol(f.Protocol, o.Protocol) && len(f.From)+len(o.From) == 0 {
				c.Error(at+".port", fmt.Sprintf("%s is in port_forwards[%d] (%s) too, which comes first", f.Port, j, o.Name), "a port leads to one host")
				break
			}
		}
	}
}

func shareProtocol(a, b Protocol) bool {
	for _, x := range protocolsOf(a) {
		if slices.Contains(protocolsOf(b), x) {
			return true
		}
	}
	return false
}

// targetOf reads ADDRESS or ADDRESS:PORT; port 0: the same one.
func targetOf(text string) (netip.AddrPort, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, 0), isHost(a)
	}
	ap, err := netip.ParseAddrPort(text)
	return ap, err == nil && ap.Port() != 0 && isHost(ap.Addr())
}

func isHost(a netip.Addr) bool {
	return a.Is4() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback()
}

func checkRule(c *config.Checker, at string, r Rule, zones []string) {
	checkName(c, at, r.Name)
	checkPorts(c, at+".ports", r.Ports)
	if c.Given(at+".from") && !slices.Contains(zones, r.From) {
		c.Error(at+".from", fmt.Sprintf("there is no [zone.%s]", r.From), config.Suggest(r.From, zones))
	}
	if r.To != "" && r.To != toRouter && !slices.Contains(zones, r.To) {
		c.Error(at+".to", fmt.Sprintf("there is no [zone.%s]", r.To), config.Suggest(r.To, append(slices.Clone(zones), toRouter)))
	}
	if len(r.Ports) > 0 && (r.Protocol == ICMP || r.Protocol == Any) {
		c.Error(at+".ports", fmt.Sprintf("%s has no ports", r.Protocol), "write protocol = \"tcp\", \"udp\" or \"both\"")
	}
	if !c.Given(at + ".action") {
		c.Error(at+".action", "is missing", `"accept", "reject" or "drop"`)
	}
	for i, m := range r.MACs {
		if _, ok := state.ParseMAC(m); !ok {
			c.Error(fmt.Sprintf("%s.macs[%d]", at, i), fmt.Sprintf("%q is no link address", m), "like 02:00:00:00:00:07")
		}
	}
	if len(families(r)) == 0 {
		c.Error(at+".destinations", "has another family than sources", "no packet has both: write two rules")
	}
}

// families are those in which a rule can match: "ip", "ip6".
func families(r Rule) (list []string) {
	for _, four := range []bool{true, false} {
		fits := func(all []netip.Prefix) bool {
			return len(all) == 0 || slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.IsValid() && p.Addr().Is4() == four })
		}
		if fits(r.Sources) && fits(r.Destinations) {
			list = append(list, map[bool]string{true: "ip", false: "ip6"}[four])
		}
	}
	return list
}

// protocolsOf returns the transport protocols of a forward or rule.
func protocolsOf(p Protocol) []string {
	switch p {
	case UDP:
		return []string{"udp"}
	case Both:
		return []string{"tcp", "udp"}
	}
	return []string{"tcp"}
}
