package firewall

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/config"
)

// Ruleset returns the body of weft's nftables table: all of the file's zones, forwards,
// pinholes and rules. addresses are those of this router by device, with their subnets;
// made are the devices of weft's own, as those of translators. It is empty if there are
// no zones.
func Ruleset(f *config.File, addresses map[string][]netip.Prefix, made []string) string {
	w := &writer{rules: From(f), zones: zones(f), addresses: addresses}
	for _, d := range made {
		if !w.zoned(d) {
			w.own = append(w.own, d)
		}
	}
	if len(w.zones) == 0 {
		return ""
	}
	w.input()
	w.forward()
	w.portForwards()
	w.masquerade()
	return w.text.String()
}

// writer writes a table, a line at a time.
type writer struct {
	rules     *Config
	zones     []zone
	addresses map[string][]netip.Prefix
	own       []string // weft's own devices in no zone: what they are for filters by itself
	text      strings.Builder
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.text, "\t\t"+format+"\n", args...) }

// chain writes a chain; hook is empty for one that others jump to.
func (w *writer) chain(name, hook string, body func()) {
	if w.text.Len() > 0 {
		w.text.WriteByte('\n')
	}
	fmt.Fprintf(&w.text, "\tchain %s {\n", name)
	if hook != "" {
		w.line("%s; policy accept;", hook)
	}
	body()
	w.text.WriteString("\t}\n")
}

// set writes what an nftables expression may be: one value, or a list of them.
func set(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "{ " + strings.Join(values, ", ") + " }"
}

func quote(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = `"` + n + `"`
	}
	return list
}

func prefixes(list []netip.Prefix, four bool) (texts []string) {
	for _, p := range list {
		if text := p.Masked().String(); p.IsValid() && p.Addr().Is4() == four && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// byZone writes jumps by the interface of a packet. Interfaces of no zone go on.
func (w *writer) byZone(chain string) {
	for _, z := range w.zones {
		w.line("iifname %s jump %s_%s", set(quote(z.devices)), chain, z.name)
	}
}

// input is what reaches the router itself.
func (w *writer) input() {
	w.chain("input", "type filter hook input priority filter", func() {
		w.line("ct state vmap { established : accept, related : accept }")
		w.line(`iifname "lo" accept`)
		w.byZone("input_from")
	})
	for _, z := range w.zones {
		w.chain("input_from_"+z.name, "", func() {
			w.refuseBogons(z)
			if z.kind == WAN {
				w.line(`ct state invalid counter drop comment "%s: belongs to no connection"`, z.name)
			}
			for _, r := range w.rules.Rules {
				if r.From == z.name && (r.To == "" || r.To == toRouter) {
					w.rule(r, "")
				}
			}
			if slices.Contains(z.services, all) {
				w.line(`counter accept comment "%s: reaches the router"`, z.name)
				return
			}
			w.controlMessages(z)
			w.services(z)
			w.refuse(z, z.name+": does not reach the router")
		})
	}
}

// controlMessages lets in what a host must receive, whatever its policy (RFC 4890
// section 4.4; RFC 8415 section 7.2 for a DHCPv6 client's answers). Packet too big,
// unreachable and the like belong to connections: they are related.
func (w *writer) controlMessages(z zone) {
	w.line("icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } ip6 hoplimit 255 accept")
	w.line("icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } ip6 saddr fe80::/10 accept")
	w.line("icmpv6 type mld2-listener-report ip6 saddr :: accept")
	w.line("icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } limit rate 100/second burst 100 packets accept")
	w.line(`icmp type echo-request limit rate 100/second burst 100 packets counter accept comment "%s: ping"`, z.name)
	w.line(`icmpv6 type echo-request limit rate 100/second burst 100 packets counter accept comment "%s: ping over IPv6"`, z.name)
	w.line("ip protocol igmp accept")
	w.line("ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept")
}

func (w *writer) services(z zone) {
	ports := map[string][]string{}
	for _, s := range z.services {
		list, _ := serviceOf(s)
		for _, item := range list {
			protocol, port, _ := strings.Cut(item, "/")
			if !slices.Contains(ports[protocol], port) {
				ports[protocol] = append(ports[protocol], port)
			}
		}
	}
	for _, protocol := range []string{"tcp", "udp"} {
		if list := ports[protocol]; len(list) > 0 {
			w.line(`%s dport %s counter accept comment "%s: services of the router"`, protocol, set(list), z.name)
		}
	}
}

// refuse ends a zone's chain: strangers get no answer, others one that tells them.
func (w *writer) refuse(z zone, why string) {
	if z.kind == WAN {
		w.line(`counter drop comment "%s"`, why)
		return
	}
	w.line(`counter reject with icmpx type admin-prohibited comment "%s"`, why)
}

// forward is what goes through the router.
func (w *writer) forward() {
	w.chain("forward", "type filter hook forward priority filter", func() {
		for _, z := range w.zones {
			if z.clamp {
				w.line("oifname %s tcp flags syn / syn,rst tcp option maxseg size set rt mtu", set(quote(z.devices)))
				w.line("iifname %s tcp flags syn / syn,rst tcp option maxseg size set rt mtu", set(quote(z.devices)))
			}
		}
		w.line("ct state vmap { established : accept, related : accept }")
		for _, z := range w.zones {
			if len(z.nat) > 0 { // without its connection it would leave with its own address
				w.line(`oifname %s ct state invalid counter drop comment "%s: belongs to no connection"`, set(quote(z.devices)), z.name)
			}
		}
		w.byZone("forward_from")
	})
	for _, z := range w.zones {
		w.chain("forward_from_"+z.name, "", func() { w.forwardFrom(z) })
	}
}

func (w *writer) forwardFrom(z zone) {
	w.refuseBogons(z)
	if z.kind == WAN {
		w.line(`ct state invalid counter drop comment "%s: belongs to no connection"`, z.name)
	}
	for _, r := range w.rules.Rules {
		if r.From != z.name || r.To == toRouter {
			continue
		}
		out := ""
		if r.To != "" {
			out = fmt.Sprintf("oifname %s ", set(quote(w.zone(r.To).devices)))
		}
		w.rule(r, out)
	}
	w.line(`ct status dnat counter accept comment "%s: by a port forward"`, z.name)
	if z.kind == WAN {
		w.pinholes(z)
		// RFC 4890 section 4.3.1: hosts behind answer ping, unless a rule says otherwise
		w.line(`icmpv6 type echo-request limit rate 1000/second burst 100 packets counter accept comment "%s: ping of hosts over IPv6"`, z.name)
	}
	if !z.isolated {
		w.line(`oifname %s counter accept comment "%s: among its interfaces"`, set(quote(z.devices)), z.name)
	}
	for _, to := range z.to {
		w.line(`oifname %s counter accept comment "%s: to %s"`, set(quote(w.zone(to).devices)), z.name, to)
	}
	for _, other := range w.zones {
		if other.name == z.name && !z.isolated || slices.Contains(z.to, other.name) {
			continue
		}
		text := fmt.Sprintf("%s: not to %s", z.name, other.name)
		if z.kind == WAN {
			w.line(`oifname %s counter drop comment "%s"`, set(quote(other.devices)), text)
		} else {
			w.line(`oifname %s counter reject with icmpx type admin-prohibited comment "%s"`, set(quote(other.devices)), text)
		}
	}
	if z.kind == WAN {
		if len(w.own) > 0 {
			w.line(`oifname %s counter accept comment "%s: to translators and tunnels of weft"`, set(quote(w.own)), z.name)
		}
		w.line(`counter drop comment "%s: not through the router"`, z.name)
	}
}

// zoned reports whether a device is in a zone.
func (w *writer) zoned(device string) bool {
	return slices.ContainsFunc(w.zones, func(z zone) bool { return z.has(device) })
}

func (w *writer) zone(name string) zone {
	i := slices.IndexFunc(w.zones, func(z zone) bool { return z.name == name })
	if i < 0 {
		return zone{}
	}
	return w.zones[i]
}

// refuseBogons drops sources that cannot be right: reserved ones, and private ones
// unless this router has an interface in their network.
func (w *writer) refuseBogons(z zone) {
	if !z.bogons {
		return
	}
	networks := slices.Concat(slices.Collect(maps.Values(w.addresses))...)
	slices.SortFunc(networks, netip.Prefix.Compare)
	if own := prefixes(networks, true); len(own) > 0 {
		w.line("ip saddr != %s ip saddr { 0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3 } counter drop comment \"%s: bogon\"", set(own), z.name)
	} else {
		w.line("ip saddr { 0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3 } counter drop comment \"%s: bogon\"", z.name)
	}
	own := append([]string{"2000::/3", "fe80::/10", "::/128", "64:ff9b::/96"}, prefixes(networks, false)...)
	w.line("ip6 saddr != %s counter drop comment \"%s: bogon\"", set(own), z.name)
}

// pinholes opens IPv6 hosts to a zone.
func (w *writer) pinholes(z zone) {
	for _, p := range w.rules.Pinholes {
		match := ""
		if from := prefixes(p.From, false); len(from) > 0 {
			match = "ip6 saddr " + set(from) + " "
		}
		to := p.To.As16()
		if [8]byte(to[:8]) == [8]byte{} {
			match += fmt.Sprintf("ip6 daddr & ::ffff:ffff:ffff:ffff == %s ", p.To)
		} else {
			match += fmt.Sprintf("ip6 daddr %s ", p.To)
		}
		w.line(`%s%scounter accept comment "%s"`, match, transport(protocolsOf(p.Protocol), p.Ports), p.Name)
	}
}

// transport matches protocols and destination ports.
func transport(protocols, ports []string) string {
	switch {
	case len(ports) == 0:
		return "meta l4proto " + set(protocols) + " "
	case len(protocols) == 1:
		return protocols[0] + " dport " + set(ports) + " "
	}
	return "meta l4proto " + set(protocols) + " th dport " + set(ports) + " "
}

// rule writes one exception, once for each family that it can match.
func (w *writer) rule(r Rule, out string) {
	kinds := families(r)
	if len(r.Sources)+len(r.Destinations) == 0 {
		kinds = []string{""}
	}
	for _, family := range kinds {
		match := out
		if len(r.MACs) > 0 {
			match += "ether saddr " + set(r.MACs) + " "
		}
		if s := prefixes(r.Sources, family == "ip"); len(s) > 0 {
			match += family + " saddr " + set(s) + " "
		}
		if d := prefixes(r.Destinations, family == "ip"); len(d) > 0 {
			match += family + " daddr " + set(d) + " "
		}
		switch {
		case r.Protocol == ICMP:
			match += "meta l4proto { icmp, ipv6-icmp } "
		case r.Protocol == Any || r.Protocol == "" && len(r.Ports) == 0:
		case r.Protocol == "":
			match += transport(protocolsOf(Both), r.Ports)
		default:
			match += transport(protocolsOf(r.Protocol), r.Ports)
		}
		if r.Log {
			w.line(`%slimit rate 10/second log prefix "weft %s: "`, match, r.Name)
		}
		verdict := map[Action]string{Accept: "accept", Drop: "drop", Reject: "reject with icmpx type admin-prohibited"}[r.Action]
		w.line(`%scounter %s comment "%s"`, match, verdict, r.Name)
	}
}
