package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// what l2tpns does without a setting
const (
	l2tpnsEcho      = 240  // idle_echo_timeout, in seconds
	l2tpnsOverhead  = 40   // IPv4, UDP, L2TP and PPP around a packet
	l2tpnsMRUMax    = 1500 // of weft
	l2tpnsMRUMin    = 576
	l2tpnsRADIUS    = 1812
	l2tpnsPoolLines = 1 << 16
)

// address reads a setting that is an address; 0.0.0.0 and :: are none.
func (l *l2tpns) address(name string, is6 bool) (netip.Addr, bool) {
	s, ok := l.set[name]
	if !ok {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s.value)
	if err != nil || a.Is6() != is6 || a.Zone() != "" {
		l.wrong(s.line, name, fmt.Sprintf("%q is not an address of its family", s.value), "write it as "+map[bool]string{false: "192.0.2.1", true: "2001:db8::1"}[is6])
		return netip.Addr{}, false
	}
	return a, !a.IsUnspecified()
}

// number reads a setting that is a number from 0 to most.
func (l *l2tpns) number(name string, most uint64) (uint64, bool) {
	s, ok := l.set[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s.value, 10, 64)
	if err != nil || n > most {
		l.wrong(s.line, name, fmt.Sprintf("%q is no number from 0 to %d", s.value, most), "write it in digits")
		return 0, false
	}
	return n, true
}

// addresses finds out where LACs reach it.
func (l *l2tpns) addresses(o Options) {
	text, line, name := o.Listen, 1, "--listen"
	if s, ok := l.set["bind_multi_address"]; ok {
		text, line, name = s.value, s.line, "bind_multi_address"
	} else if a, ok := l.address("bind_address", false); ok {
		text, line, name = a.String(), l.set["bind_address"].line, "bind_address"
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		a, err := netip.ParseAddr(word)
		if err != nil || a.Zone() != "" || a.IsUnspecified() {
			l.wrong(line, name, fmt.Sprintf("%q is no address", word), "write it as 192.0.2.1")
			continue
		}
		if !slices.Contains(l.listen, a) {
			l.listen = append(l.listen, a)
		}
	}
	if len(l.listen) == 0 {
		l.wrong(line, "bind_address", "is missing: l2tpns listens at every address, weft at configured ones only", "say --listen ADDRESS")
	}
}

// servers are those of RADIUS. l2tpns has one secret for all of them.
func (l *l2tpns) servers() {
	for _, which := range []string{"primary", "secondary"} {
		a, ok := l.address(which+"_radius", false)
		if !ok {
			continue
		}
		port := uint64(l2tpnsRADIUS)
		if n, ok := l.number(which+"_radius_port", 65534); ok && n > 0 {
			port = n
		}
		l.radius = append(l.radius, netip.AddrPortFrom(a, uint16(port)))
	}
	if len(l.radius) == 0 {
		l.wrong(1, "primary_radius", "is missing: there is no source of subscribers", "set it; is this a startup-config of l2tpns?")
		return
	}
	if l.set["radius_secret"].value == "" {
		l.wrong(max(1, l.set["primary_radius"].line), "radius_secret", "is missing: RADIUS servers need one", "set it")
	}
	at := max(1, l.set["primary_radius"].line)
	l.left(at, "Framed-IPv6-Route", "l2tpns also delegates the prefix by DHCPv6; weft only routes it", "let RADIUS answer with Delegated-IPv6-Prefix too, with the same prefix")
	l.left(at, "Message-Authenticator", "weft ignores responses of a RADIUS server that does not sign them (RFC 3579 section 3.2); FreeRADIUS before 3.2.5 signs EAP only", "update the server or let it add the attribute (docs/guides/freeradius.md); where neither is possible, unsigned = true in its entry of radius")
	if s := l.set["radius_accounting"]; !yes(s.value) {
		l.left(max(1, s.line), "radius_accounting", "is off in l2tpns; weft sends accounting records to the servers, at the next port", "let them acknowledge these, or weft logs the missing answers")
	}
}

func (l *l2tpns) names() {
	for _, one := range []struct {
		name string
		is6  bool
	}{{"primary_dns", false}, {"secondary_dns", false}, {"primary_ipv6_dns", true}, {"secondary_ipv6_dns", true}} {
		if a, ok := l.address(one.name, one.is6); ok {
			l.dns = append(l.dns, a)
		}
	}
}

// pool reads an ip_pool: an address or a prefix a line, perhaps with the
// bind_address that it is for before a colon.
func (l *l2tpns) pool(o Options) {
	defer func(file string) { l.file = file }(l.file)
	l.file = o.PoolFile
	for i, line := range strings.Split(string(o.Pool), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if i >= l2tpnsPoolLines {
			l.wrong(i+1, "ip_pool", "has too many lines", "write prefixes, not addresses")
			return
		}
		who, rest, forOne := strings.Cut(line, ":")
		if forOne {
			a, err := netip.ParseAddr(strings.TrimSpace(who))
			if err != nil {
				l.wrong(i+1, "ip_pool", fmt.Sprintf("%q is no address", who), "write it as 192.0.2.1:203.0.113.0/24")
				continue
			}
			if !slices.Contains(l.listen, a) {
				l.left(i+1, "ip_pool", fmt.Sprintf("is for %s, where this router does not listen", a), "nothing to do")
				continue
			}
			line = strings.TrimSpace(rest)
		}
		p, err := prefixOf(line, false)
		if err != nil || p.Bits() == 0 {
			l.wrong(i+1, "ip_pool", fmt.Sprintf("%q is no pool", line), "write it as 203.0.113.0/24")
			continue
		}
		if n := slices.IndexFunc(l.pools, p.Overlaps); n >= 0 {
			l.left(i+1, "ip_pool", fmt.Sprintf("%s overlaps %s", p, l.pools[n]), "nothing to do: each address is there once")
			if p.Bits() >= l.pools[n].Bits() {
				continue
			}
			l.pools = slices.DeleteFunc(l.pools, p.Overlaps)
		}
		l.pools = append(l.pools, p)
	}
}

func (l *l2tpns) write(o Options) string {
	var out TOML
	out.Line("[lns.isp]")
	out.Line("listen = [%s]", list(l.listen))
	if s := l.set["hostname"].value; s != "" {
		out.Line("host_name = %s", Quote(s))
	}
	l.lacs(&out)
	l.authentication(&out)
	if len(l.switched) > 0 {
		out.Line("forward = [")
		for _, one := range l.switched {
			out.Line("  %s,", one)
		}
		out.Line("]")
	}
	if a, ok := l.address("peer_address", false); ok {
		out.Line("gateway = %q", a)
	}
	if len(l.pools) > 0 {
		out.Line("pools = [{ addresses = [%s] }]", list(l.pools))
	} else {
		l.left(1, "ip_pool", "is missing or empty: only subscribers with an address from RADIUS have IPv4", "say --ip-pool FILE, or write pools")
	}
	l.ipv6(&out)
	if len(l.dns) > 0 {
		out.Line("dns = [%s]", list(l.dns))
	}
	if yes(l.set["allow_duplicate_users"].value) {
		out.Line(`duplicates = "allow"`)
	}
	l.numbers(&out)

	var all TOML
	all.head("From a startup-config of l2tpns. Stop l2tpns first; take bind_address away from its tun device.", &l.notes)
	all.Line("")
	all.Line("[router]")
	all.Line("forwarding = true")
	all.Line("")
	all.Comment("The interface to the LACs. Its other addresses and routes stay as they are configured.")
	all.Line("[interface.wan]")
	all.Line("device = %s", Quote(o.WAN))
	all.Line("addresses = [%s]", list(slices.Collect(func(yield func(netip.Prefix) bool) {
		for _, a := range l.listen {
			if !yield(netip.PrefixFrom(a, a.BitLen())) {
				return
			}
		}
	})))
	all.Line("")
	all.WriteString(out.String())
	return all.String()
}

func (l *l2tpns) lacs(out *TOML) {
	s := l.set["l2tp_secret"]
	if s.value == "" {
		l.left(max(1, s.line), "l2tp_secret", "is missing: every host may set up tunnels", "name the LACs' addresses in lacs, and a secret")
		out.Line(`lacs = [{ address = "0.0.0.0/0" }]`)
		return
	}
	l.left(s.line, "l2tp_secret", "l2tpns requires it only of LACs that request it; weft of all", "name the addresses of LACs that have none in lacs, without secret")
	out.Comment("Narrow this to the LACs' addresses, each with a secret of its own.")
	out.Line("lacs = [{ address = %q, secret = %s }]", "0.0.0.0/0", Quote(s.value))
}

func (l *l2tpns) authentication(out *TOML) {
	secret := Quote(l.set["radius_secret"].value)
	out.Line("radius = [")
	for _, a := range l.radius {
		out.Line("  { server = %q, secret = %s },", a, secret)
	}
	out.Line("]")
	var clients []string
	for _, a := range l.radius {
		if one := fmt.Sprintf("{ client = %q, secret = %s }", a.Addr(), secret); !slices.Contains(clients, one) {
			clients = append(clients, one)
		}
	}
	out.Line("dynamic_authorization = [%s]", strings.Join(clients, ", "))
	s, ok := l.set["radius_authtypes"]
	if !ok {
		s = setting{1, "pap"}
	}
	var methods []string
	for _, m := range strings.FieldsFunc(s.value, func(r rune) bool { return r == ',' || r == ' ' }) {
		if m = strings.ToLower(m); m != "pap" && m != "chap" {
			l.wrong(s.line, "radius_authtypes", fmt.Sprintf("%q is neither pap nor chap", m), `write it as "chap,pap"`)
		} else if !slices.Contains(methods, m) {
			methods = append(methods, m)
		}
	}
	if len(methods) == 0 {
		l.wrong(s.line, "radius_authtypes", "is empty", `write it as "chap,pap"`)
	}
	out.Line("authentication = [%s]", list(methods))
}

// sendOn reads setforward MASK IP PORT SECRET: logins with the mask in them belong
// to another server.
func (l *l2tpns) sendOn(line int, words []string) {
	if len(words) < 4 {
		l.wrong(line, "setforward", fmt.Sprintf("has %d words behind it, and needs 4", len(words)), "complete the line")
		return
	}
	server, err := netip.ParseAddrPort(words[1] + ":" + words[2])
	if err != nil || !server.IsValid() || server.Port() == 0 {
		l.wrong(line, "setforward", fmt.Sprintf("%s port %s is no server", words[1], words[2]), "write it as 192.0.2.1 1701")
		return
	}
	realm, whole := strings.CutPrefix(words[0], "@")
	entry := fmt.Sprintf("{ realm = %s, server = %q, secret = %s }", Quote(realm), server, Quote(words[3]))
	switch {
	case !whole || realm == "" || strings.Contains(realm, "@"):
		l.left(line, "setforward", fmt.Sprintf("weft forwards by realm, the part behind an @ in logins, and %q is another part", words[0]),
			"put the realm into forward, or let RADIUS answer with Tunnel-Type and Tunnel-Server-Endpoint")
	case l.said["setforward @"+strings.ToLower(realm)]:
		l.left(line, "setforward", fmt.Sprintf("is there for %q already", realm), "each realm goes to one server")
	default:
		l.said["setforward @"+strings.ToLower(realm)] = true
		l.switched = append(l.switched, entry)
	}
}

func (l *l2tpns) ipv6(out *TOML) {
	a, ok := l.address("ipv6_prefix", true)
	if !ok {
		out.Line("ipv6 = false")
		return
	}
	l.left(l.set["ipv6_prefix"].line, "ipv6_prefix", fmt.Sprintf("l2tpns has all subscribers in %s, by their IPv4 address; weft gives each session a /64",
		netip.PrefixFrom(a, 64).Masked()), "write the space for them in prefixes, and in delegate what DHCPv6 delegates; what RADIUS gives stays")
	out.Line("ipv6 = true")
}

func (l *l2tpns) numbers(out *TOML) {
	if n, ok := l.number("l2tp_mtu", 65535); ok {
		out.Line("mru = %d", min(max(n, l2tpnsMRUMin+l2tpnsOverhead)-l2tpnsOverhead, l2tpnsMRUMax))
	}
	if n, ok := l.number("throttle_speed", 1<<40); ok && n > 0 {
		out.Line("rate_up = %d", n*1000)
		out.Line("rate_down = %d", n*1000)
	}
	idle, given := l.number("idle_echo_timeout", 14400)
	if !given {
		idle = l2tpnsEcho
	}
	if _, also := l.number("echo_timeout", 3600); given || also {
		out.Comment("Four silences end a session, together as long as idle_echo_timeout.")
		out.Line("lcp_echo = \"%ds\"", (idle+3)/4)
	}
	if n, ok := l.number("radius_interim", 1<<31); ok && n > 0 && yes(l.set["radius_accounting"].value) {
		out.Line("acct_interim_interval = \"%ds\"", n)
	}
}

// list writes values as the inside of an array of strings.
func list[T any](values []T) string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = Quote(fmt.Sprint(v))
	}
	return strings.Join(text, ", ")
}
