package openwrt

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// iface is a logical interface of OpenWrt.
type iface struct {
	name, proto string
	s           *section
	device      string // that packets pass, "" if it is not known
	lower       string // the device below it, of PPPoE
	addresses   []given
	blocks      []netip.Prefix // that ip6assign gave it
	link        *link
	ethernet    bool
}

// given is an address and who gives it.
type given struct {
	prefix netip.Prefix
	s      *section
	option string
}

// link is what becomes [interface.NAME]: a device, and what the interfaces on it have.
type link struct {
	name, device string
	addresses    []netip.Prefix
	mtu          int
	promiscuous  bool
	ethernet     bool
	ifaces       []*iface
}

// least is the smallest MTU that the addresses allow.
func (l *link) least() int {
	for _, a := range l.addresses {
		if a.Addr().Is6() {
			return 1280
		}
	}
	return 68
}

// off reports whether OpenWrt leaves an interface out, or does not start it by itself.
func off(s *section) bool { return s.on("disabled", false) || !s.on("auto", true) }

func (i *iface) loopback() bool { return i.device == "lo" || i.name == "loopback" }

// prefixes are what OpenWrt puts before the name of an interface to name the device that
// a protocol makes.
var prefixes = map[string]string{
	"pppoe": "pppoe-", "pppoa": "pppoa-", "ppp": "ppp-", "3g": "3g-", "pptp": "pptp-", "l2tp": "l2tp-", "wireguard": "", "wireguard_vpn": "",
	"6in4": "6in4-", "6to4": "6to4-", "6rd": "6rd-", "dslite": "ds-", "map": "map-", "ipip": "ipip-", "vti": "vti-", "xfrm": "xfrm-",
	"gre": "gre4-", "grev6": "gre6-", "gretap": "gre4t-", "grev6tap": "gre6t-", "vxlan": "", "vxlan6": "", "batadv": "", "amneziawg": "", "openconnect": "vpn-", "sstp": "sstp-",
}

// layer3 are the protocols whose devices carry no Ethernet.
var layer3 = map[string]bool{
	"pppoa": true, "ppp": true, "3g": true, "pptp": true, "l2tp": true, "wireguard": true, "6in4": true, "6to4": true, "6rd": true, "dslite": true, "map": true,
	"ipip": true, "vti": true, "xfrm": true, "gre": true, "grev6": true, "amneziawg": true, "openconnect": true, "sstp": true, "pppoe": true,
}

// readInterfaces finds the interfaces and their devices.
func (c *converter) readInterfaces() {
	c.byName = map[string]*iface{}
	for _, s := range c.of("network", "interface") {
		switch {
		case s.Name == "":
			s.rest(No, "an interface without a name is none", "like config interface 'lan'")
		case s.on("disabled", false):
			s.rest(Yes, "disabled, and left out", "")
		case !s.on("auto", true):
			s.rest(Differs, "is not started at boot, and left out", "add it to weft.toml, whose interfaces are up from the start")
		default:
			i := &iface{name: s.Name, proto: cmpOr(s.value("proto"), "none"), s: s}
			c.ifaces = append(c.ifaces, i)
			c.byName[i.name] = i
		}
	}
	for _, i := range c.ifaces {
		c.deviceOf(i, nil)
		c.bridgeUse(i)
		i.s.yes("auto", "interfaces of weft are up from the start")
		i.s.yes("disabled", "is not disabled")
	}
	for _, b := range c.bridges {
		c.finishVLANs(b)
	}
	for _, i := range c.ifaces {
		c.untagged(i)
		c.static(i)
	}
	for _, s := range c.of("network", "alias") {
		i := c.byName[s.value("interface")]
		if i == nil {
			s.rest(No, fmt.Sprintf("there is no interface %q", printable(s.value("interface"))), "remove it")
			continue
		}
		c.addresses(i, s)
		s.rest(Yes, fmt.Sprintf("[interface.%s] addresses", i.name), "")
	}
}

// deviceOf finds the device of an interface; seen are the interfaces that it is looked for.
func (c *converter) deviceOf(i *iface, seen []string) string {
	if i.device != "" {
		return i.device
	}
	option := "device"
	if !i.s.has(option) {
		option = "ifname"
	}
	words := i.s.words(option)
	below := ""
	if len(words) > 0 {
		below = words[0]
	}
	if name, alias := strings.CutPrefix(below, "@"); alias {
		below = ""
		if other := c.byName[name]; other != nil && len(seen) < 8 {
			below = c.deviceOf(other, append(seen, i.name))
		}
	} else {
		below = c.rename(below)
	}
	prefix, virtual := prefixes[i.proto]
	i.ethernet = !layer3[i.proto]
	switch {
	case i.s.value("type") == "bridge" && c.bridgeOf["br-"+i.name] != nil:
		i.device = "br-" + i.name
	case virtual:
		i.device, i.lower = prefix+i.name, below
	default:
		i.device = below
	}
	if deviceName(i.device) != "" {
		i.device = ""
	}
	return i.device
}

// bridgeUse notes that an interface takes part in a bridge, or in a VLAN of one.
func (c *converter) bridgeUse(i *iface) {
	b, vlan := c.bridgeVLANOf(i.device)
	if b == nil {
		return
	}
	b.host = b.host || i.proto != "none"
	switch {
	case vlan == 0:
		b.plain, b.hostVLAN = true, 0
	case !b.plain && b.hostVLAN == 0 && b.filtering:
		b.hostVLAN = vlan
	}
	if vlan != 0 && !b.filtering {
		b.above = append(b.above, vlan)
	}
}

// bridgeVLANOf splits the name of a VLAN device on a bridge. Without a VLAN it is 0.
func (c *converter) bridgeVLANOf(name string) (*bridge, int) {
	if b := c.bridgeOf[name]; b != nil {
		return b, 0
	}
	at := strings.LastIndexByte(name, '.')
	if at < 1 {
		return nil, 0
	}
	b := c.bridgeOf[name[:at]]
	if b == nil {
		return nil, 0
	}
	if id, ok := b.alias[name[at+1:]]; ok {
		return b, id
	}
	id, err := strconv.Atoi(name[at+1:])
	if err != nil || id < 1 || id > 4094 {
		return nil, 0
	}
	return b, id
}

// untagged moves an interface from the VLAN device to the bridge's own device, where the
// router has that VLAN without a tag.
func (c *converter) untagged(i *iface) {
	option := "device"
	if !i.s.has(option) {
		option = "ifname"
	}
	b, vlan := c.bridgeVLANOf(i.device)
	if b == nil || vlan == 0 || i.lower != "" {
		return
	}
	if vlan == b.hostVLAN && !b.plain {
		i.s.differs(option, fmt.Sprintf("VLAN %d is without a tag on %s itself, by host_vlan", vlan, b.device), "nothing to do; programs that name "+i.device+" now name "+b.device)
		i.device = b.device
	}
}

// static takes the addresses of an interface with static ones, and of the tunnels that
// have some.
func (c *converter) static(i *iface) {
	if i.loopback() {
		return
	}
	switch i.proto {
	case "static", "6in4", "none", "batadv", "batadv_vlan":
		c.addresses(i, i.s)
	case "wireguard", "wireguard_vpn", "amneziawg":
		for _, word := range i.s.words("addresses") {
			c.address(i, i.s, "addresses", word, 0)
		}
	}
}

// addresses takes ipaddr, netmask and ip6addr.
func (c *converter) addresses(i *iface, s *section) {
	mask := 0
	if s.has("netmask") {
		mask = maskLength(s.value("netmask"))
		if mask < 0 {
			s.no("netmask", fmt.Sprintf("%q is no netmask", printable(s.value("netmask"))), "like 255.255.255.0")
			mask = 0
		}
	}
	if i.proto != "6in4" { // where it is the tunnel's end
		for _, word := range s.words("ipaddr") {
			c.address(i, s, "ipaddr", word, mask)
		}
	}
	for _, word := range s.words("ip6addr") {
		c.address(i, s, "ip6addr", word, 0)
	}
}

// address takes one address, with its length or a mask.
func (c *converter) address(i *iface, s *section, option, word string, mask int) {
	at := word
	if text, length, slash := strings.Cut(word, "/"); slash && strings.Contains(length, ".") {
		at, mask = text, maskLength(length)
	}
	p, err := netip.ParsePrefix(at)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(at); err == nil {
			bits := a.BitLen()
			if a.Is4() && mask > 0 {
				bits = mask
			}
			p = netip.PrefixFrom(a, bits)
		}
	}
	if err != nil || p.Addr().Zone() != "" {
		s.item(No, option, word, fmt.Sprintf("%q is no address", printable(word)), "like 192.0.2.1/24 or 2001:db8:1::1/64")
		return
	}
	if why := unusable(p); why != "" {
		s.item(No, option, word, why, "give the interface one address of its subnet")
		return
	}
	i.addresses = append(i.addresses, given{p, s, option})
}

// maskLength is the length of a mask, as a number or with dots; -1: it is none.
func maskLength(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		if n >= 0 && n <= 32 {
			return n
		}
		return -1
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return -1
	}
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	length := 0
	for n&(1<<31) != 0 {
		n <<= 1
		length++
	}
	if n != 0 {
		return -1
	}
	return length
}

// unusable returns why a prefix cannot be an interface's address, in weft's eyes.
func unusable(p netip.Prefix) string {
	a := p.Addr()
	host := p.Bits() >= a.BitLen()-1
	switch {
	case a.Is4In6(), a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Sprintf("%s cannot be an interface's address", a)
	case a.IsLoopback():
		return fmt.Sprintf("%s is a loopback address", a)
	case p.Bits() == 0:
		return fmt.Sprintf("%s makes the whole Internet a neighbour", p)
	case !host && p == p.Masked():
		return fmt.Sprintf("%s is the subnet, not an address in it", p)
	case !host && a.Is4() && !p.Contains(a.Next()):
		return fmt.Sprintf("%s is the subnet's broadcast address", a)
	}
	return ""
}
