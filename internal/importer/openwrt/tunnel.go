package openwrt

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// wire is what becomes [pseudowire.NAME].
type wire struct {
	name, device, kind string
	src, dst           netip.Addr
	keys               []string // lines of weft.toml
	ports              []string // interfaces of OpenWrt whose bridge it joins
	s                  *section
}

// client is what becomes [l2tp_client.NAME].
type client struct {
	name, server, login, password string
	ipv6, delegation              bool
	delegateTo                    []string
	routes                        []string
	mru                           int
	keepalive                     int // seconds
}

// wire reports whether an interface is one end of a pseudowire.
func (i *iface) wire() bool {
	return slices.Contains([]string{"gretap", "grev6tap", "vxlan", "vxlan6"}, i.proto)
}

// tunnels reads the interfaces that weft makes itself.
func (c *converter) tunnels() {
	peers := map[string][]*section{}
	for _, s := range c.of("network", "vxlan_peer") {
		peers[s.value("vxlan")] = append(peers[s.value("vxlan")], s)
	}
	for _, i := range c.ifaces {
		switch {
		case i.wire():
			c.wire(i, peers[i.name])
		case i.proto == "l2tp":
			c.client(i)
		}
	}
	for _, s := range c.of("network", "vxlan_peer") {
		s.rest(No, "a vxlan of weft has one other end", "write a [pseudowire.NAME] for each other end, with another vni or srcport, and join them in a bridge")
	}
	c.ends()
}

// local finds the own address of a tunnel: what the file says, or that of the interface
// that it leaves by.
func (c *converter) local(i *iface, option string, is6 bool) netip.Addr {
	if text := i.s.value(option); text != "" {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Addr{}
		}
		return a
	}
	below := c.byName[i.s.value("tunlink")]
	if below == nil {
		below = c.byName["wan"]
	}
	if below != nil {
		for _, g := range below.addresses {
			if g.prefix.Addr().Is6() == is6 && !g.prefix.Addr().IsLinkLocalUnicast() {
				return g.prefix.Addr()
			}
		}
	}
	return netip.Addr{}
}

func (c *converter) wire(i *iface, peers []*section) {
	s := i.s
	six := i.proto == "grev6tap" || i.proto == "vxlan6"
	own, peer := "ipaddr", "peeraddr"
	if six {
		own, peer = "ip6addr", "peer6addr"
	}
	w := &wire{name: i.name, device: i.device, kind: "gretap", src: c.local(i, own, six), s: s}
	if strings.HasPrefix(i.proto, "vxlan") {
		w.kind = "vxlan"
	}
	at := fmt.Sprintf("[pseudowire.%s]", w.name)
	far, farOption, farSection := s.value(peer), peer, s
	if far == "" && len(peers) == 1 {
		far, farOption, farSection = peers[0].value("dst"), "dst", peers[0]
		peers[0].rest(Yes, at, "")
	}
	dst, err := netip.ParseAddr(far)
	switch {
	case i.device == "":
		s.rest(No, fmt.Sprintf("the device's name is too long for the interface %s", printable(i.name)), "give it a shorter name")
		return
	case !oneHost(w.src) || w.src.Is6() != six:
		s.rest(No, "the own address of the tunnel is not in the file", "write "+at+" with src, once the address is known: it does not change")
		return
	case err != nil || !oneHost(dst) || dst.Is6() != six:
		farSection.no(farOption, fmt.Sprintf("%q is not the address of the one other end", printable(far)), "write "+at+" with the address in dst")
		s.rest(No, "the address of the other end is not in the file", "write "+at+" with dst")
		return
	}
	w.dst = dst
	s.yes("", at)
	s.yes("proto", at+" kind")
	s.yes(own, at+" src")
	s.yes(peer, at+" dst")
	s.yes("tunlink", at+" src and the kernel's routes")
	c.wireOptions(w, i, at)
	if w.kind == "gretap" {
		c.greOptions(w, at)
	} else {
		c.vxlanOptions(w, at)
	}
	w.ports = s.words("network")
	s.yes("network", "a port of the bridge of that interface")
	c.wires = append(c.wires, w)
}

func oneHost(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.Is4In6() && a.Zone() == "" && !a.IsLoopback() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// number takes an option that is a number into a key of weft.toml.
func (w *wire) number(option, key string, least, most uint64, at string) bool {
	if !w.s.has(option) {
		return false
	}
	n, err := strconv.ParseUint(w.s.value(option), 0, 64)
	if err != nil || n < least || n > most {
		w.s.no(option, fmt.Sprintf("%q is no number from %d to %d", printable(w.s.value(option)), least, most), "see docs/features/pseudowire.md")
		return false
	}
	w.keys = append(w.keys, fmt.Sprintf("%s = %d", key, n))
	w.s.yes(option, at+" "+key)
	return true
}

// wireOptions are those that all tunnels have.
func (c *converter) wireOptions(w *wire, i *iface, at string) {
	s := w.s
	if !w.number("mtu", "mtu", 68, 65535, at) && w.kind == "gretap" && !s.has("mtu") {
		s.differs("proto", at+": the MTU comes from the path, not 1280", "set mtu = 1280 to have it so")
	}
	w.number("ttl", "ttl", 0, 255, at)
	if tos := s.value("tos"); tos != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(tos, "0x"), 16, 8)
		switch {
		case tos == "inherit":
			w.keys = append(w.keys, `tos = "inherit"`)
			s.yes("tos", at+" tos")
		case err != nil:
			s.no("tos", fmt.Sprintf("%q is neither inherit nor a number", printable(tos)), "like 0x10")
		default:
			w.keys = append(w.keys, fmt.Sprintf("tos = \"0x%02x\"", n))
			s.differs("tos", at+" tos: the congestion bits are those of the inner packet (RFC 6040)", "nothing to do")
		}
	}
	s.no("macaddr", "weft does not set a pseudowire's link address", "ip link set dev "+w.device+" address ADDRESS")
}

func (c *converter) greOptions(w *wire, at string) {
	s := w.s
	if s.has("ikey") != s.has("okey") {
		s.no("ikey", "a key in one direction only", "give both ends ikey and okey, or neither")
		s.no("okey", "a key in one direction only", "give both ends ikey and okey, or neither")
	} else if s.has("ikey") && s.has("okey") {
		before := len(w.keys)
		if !w.number("ikey", "rx_key", 0, 1<<32-1, at) || !w.number("okey", "tx_key", 0, 1<<32-1, at) {
			w.keys = w.keys[:before]
		}
	}
	if s.has("df") {
		w.keys = append(w.keys, fmt.Sprintf("df = %t", s.on("df", true)))
		s.differs("df", at+" df: weft does not fragment packets itself", "nothing to do where all links carry the tunnel's MTU")
	}
	for _, pair := range []struct{ in, out, key string }{{"icsum", "ocsum", `checksum = "on"`}, {"iseqno", "oseqno", "sequence = true"}} {
		in, out := s.on(pair.in, false), s.on(pair.out, false)
		key, _, _ := strings.Cut(pair.key, " ")
		if in || out {
			w.keys = append(w.keys, pair.key)
		}
		for _, option := range []string{pair.in, pair.out} {
			if in != out {
				s.differs(option, at+" "+key+" is for both directions", "set both options at the other end")
			} else {
				s.yes(option, at+" "+key)
			}
		}
	}
	s.yes("multicast", "all frames are carried")
	s.no("encaplimit", "weft sends no encapsulation limit (RFC 2473)", "nothing to do, unless tunnels are nested")
}

func (c *converter) vxlanOptions(w *wire, at string) {
	if !w.number("vid", "vni", 0, 1<<24-1, at) {
		w.keys = append(w.keys, "vni = 0")
		if !w.s.has("vid") {
			w.s.differs("proto", at+": without vid the VNI is 0", "set vni")
		}
	}
	w.number("port", "srcport", 1, 65535, at)
	for _, option := range []string{"rxcsum", "txcsum"} {
		w.s.differs(option, "vxlan's checksums are the kernel's default", "nothing to do: UDP over IPv6 has one")
	}
}

// ends drops pseudowires whose packets look the same.
func (c *converter) ends() {
	seen := map[string]string{}
	c.wires = slices.DeleteFunc(c.wires, func(w *wire) bool {
		id := fmt.Sprint(w.kind, w.src, w.dst)
		for _, key := range w.keys {
			if strings.HasPrefix(key, "rx_key") || strings.HasPrefix(key, "vni") || strings.HasPrefix(key, "srcport") {
				id += " " + key
			}
		}
		if other := seen[id]; other != "" || w.src == w.dst {
			w.s.mark(No, "", "packets for it look like those for "+cmpOr(other, "itself"), "give it a key, a VNI or addresses of its own")
			return true
		}
		seen[id] = w.name
		return false
	})
}

// client reads an interface with proto l2tp.
func (c *converter) client(i *iface) {
	s := i.s
	const longest = 10 // behind l2tp-
	if len(i.name) > longest || !s.has("server") {
		s.rest(No, "has no server, or a name longer than 10 characters", "complete the section, and give it a shorter name")
		return
	}
	at := fmt.Sprintf("[l2tp_client.%s]", i.name)
	cl := &client{name: i.name, server: s.value("server"), login: s.value("username"), password: s.value("password")}
	s.yes("", at)
	s.differs("proto", at+": PAP is refused, which gives the password to the server that answers", `add "pap" to authentication if the server has nothing else`)
	s.yes("server", at+" server")
	s.yes("username", at+" login")
	s.yes("password", at+" password")
	cl.ipv6 = s.on("ipv6", false)
	s.yes("ipv6", at+" ipv6")
	if s.on("defaultroute", true) {
		cl.routes = []string{"4"}
		if cl.ipv6 {
			cl.routes = append(cl.routes, "6")
		}
	}
	s.yes("defaultroute", at+" default_route")
	if n, err := strconv.Atoi(s.value("mtu")); err == nil && n >= 576 && n <= 1500 {
		cl.mru = n
		s.yes("mtu", at+" mru")
	} else {
		s.no("mtu", fmt.Sprintf("%q is no MRU", printable(s.value("mtu"))), "576 to 1500")
	}
	if words := strings.FieldsFunc(s.value("keepalive"), func(r rune) bool { return r == ' ' || r == ',' }); len(words) > 0 {
		cl.keepalive = 5
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil && len(words) > 1 && n >= 1 && n <= 3600 {
			cl.keepalive = n
		}
		s.differs("keepalive", at+" keepalive: four unanswered requests end the session", "nothing to do")
	}
	s.no("pppd_options", "weft has no pppd", "see docs/reference/weft.toml.md for what it has instead")
	s.no("checkup_interval", "weft notices by itself that the session is gone", "nothing to do")
	for _, option := range []string{"metric"} {
		s.differs(option, "the default route has the metric 1 (IPv4) and 1025 (IPv6)", "leave default_route out and set a route of your own for another one")
	}
	c.delegated(cl, i)
	c.clients = append(c.clients, cl)
}

// delegated finds whether a DHCPv6 client runs over the session, and who has its prefix.
func (c *converter) delegated(cl *client, i *iface) {
	for _, d := range c.ifaces {
		if d.proto != "dhcpv6" || d.device != i.device || d.s.value("reqprefix") == "no" {
			continue
		}
		cl.delegation, cl.ipv6 = true, true
		at := fmt.Sprintf("[l2tp_client.%s] prefix_delegation", cl.name)
		d.s.mark(Yes, "", at, "")
		d.s.yes("proto", at)
		for _, option := range []string{"device", "ifname", "reqprefix", "reqaddress"} {
			d.s.yes(option, at)
		}
		if len(cl.routes) == 1 && d.s.on("defaultroute", true) {
			cl.routes = append(cl.routes, "6")
		}
		for _, o := range c.ifaces {
			if n, err := strconv.Atoi(o.s.value("ip6assign")); err == nil && n > 0 && n <= 64 && o.device != "" {
				cl.delegateTo = append(cl.delegateTo, o.name)
				o.s.differs("ip6assign", fmt.Sprintf("[l2tp_client.%s] delegate_to: a /64 of the delegated prefix", cl.name), "nothing to do")
			}
		}
	}
}

// joinPorts adds tunnels and Wi-Fi devices to the bridges of the interfaces that they name.
func (c *converter) joinPorts() {
	for _, w := range c.wires {
		for _, name := range w.ports {
			i := c.byName[name]
			if i == nil || c.bridgeOf[i.device] == nil {
				w.s.no("network", fmt.Sprintf("interface %s is on no bridge", printable(name)), "make one, and name "+w.device+" in its ports")
				continue
			}
			c.addPort(c.bridgeOf[i.device], w.device, w.s, "network", name)
		}
	}
	c.wireless()
	c.ports = map[string]bool{}
	for _, b := range c.bridges {
		for _, p := range b.ports {
			if p.vlan == 0 && b.filtering && len(p.vlans) == 0 {
				p.vlan = b.hostVLAN
			}
			c.ports[p.device] = true
		}
	}
}
