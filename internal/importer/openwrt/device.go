package openwrt

import (
	"fmt"
	"strconv"
	"strings"
)

// device is what config device says of a network device.
type device struct {
	name, kind string // kind: bridge, 8021q, macvlan ...; empty: a device that is there
	s          *section
}

// port is one of a bridge.
type port struct {
	device string
	vlan   int
	vlans  []int
	s      *section // that names it
	option string
}

// bridge is a bridge of OpenWrt: a device, or an interface of type bridge.
type bridge struct {
	device    string
	s         *section
	ports     []*port
	byDevice  map[string]*port
	mac       string
	snooping  bool
	filtering bool
	vlans     map[int]*section // that the router takes part in
	order     []int
	alias     map[string]int
	host      bool
	hostVLAN  int // without a tag
	plain     bool
	above     []int // VLANs whose devices stand on it, as interfaces name them
}

const vlanLink = "make it by your network manager, or: "

// rename gives a device the name that it has on the new machine.
func (c *converter) rename(name string) string {
	base, vlan, tagged := strings.Cut(name, ".")
	if to, ok := c.options.Devices[name]; ok {
		return to
	}
	if to, ok := c.options.Devices[base]; ok && tagged {
		return to + "." + vlan
	}
	return name
}

// deviceName reports why a name cannot be that of a device.
func deviceName(name string) string {
	switch {
	case name == "", len(name) > 15:
		return fmt.Sprintf("%q is no name of a device: 1 to 15 characters", printable(name))
	case name == ".", name == "..", strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == '/' || r == ':' || r == '%' || r > '~' || r == '@' || r == '*'
	}):
		return fmt.Sprintf("%q cannot be the name of a device", printable(name))
	}
	return ""
}

// readDevices finds the bridges and other devices that OpenWrt makes.
func (c *converter) readDevices() {
	c.devices, c.bridgeOf, c.vlans = map[string]*device{}, map[string]*bridge{}, map[string]bool{}
	for _, s := range c.of("network", "device") {
		name := c.rename(s.value("name"))
		if why := deviceName(name); why != "" {
			s.rest(No, why, "write option name in the section")
			continue
		}
		d := &device{name: name, kind: strings.ToLower(s.value("type")), s: s}
		c.devices[name] = d
		if d.kind == "bridge" {
			c.newBridge(name, s)
		}
	}
	for _, s := range c.of("network", "interface") {
		if s.value("type") == "bridge" && !off(s) {
			if name := "br-" + s.Name; deviceName(name) == "" {
				c.newBridge(name, s)
			}
		}
	}
}

// newBridge takes a bridge, whose ports stand in ports or, in older files, in ifname.
func (c *converter) newBridge(name string, s *section) {
	b := &bridge{device: name, s: s, byDevice: map[string]*port{}, vlans: map[int]*section{}, alias: map[string]int{}}
	if c.bridgeOf[name] != nil {
		s.rest(No, fmt.Sprintf("the bridge %s is there already", name), "keep one of the two")
		return
	}
	c.bridges, c.bridgeOf[name] = append(c.bridges, b), b
	for _, option := range []string{"ports", "ifname", "device"} {
		if !s.has(option) {
			continue
		}
		s.yes(option, fmt.Sprintf("[bridge.%s] ports", name))
		for _, word := range s.words(option) {
			c.addPort(b, c.rename(word), s, option, word)
		}
		break
	}
	b.mac = strings.ToLower(s.value("macaddr"))
	if !station(b.mac) {
		if b.mac != "" {
			s.no("macaddr", "is no link address of a station", "like 02:00:00:00:10:01")
		}
		b.mac = ""
	}
	s.yes("macaddr", fmt.Sprintf("[bridge.%s] mac", name))
	b.snooping = s.on("igmp_snooping", false)
	s.yes("igmp_snooping", fmt.Sprintf("[bridge.%s] multicast_snooping", name))
	s.yes("vlan_filtering", "bridges of weft filter VLANs")
	s.yes("bridge_empty", "a bridge of weft needs no ports")
	if s.on("stp", false) {
		s.no("stp", "bridges of weft drop spanning tree's frames: a loop is not noticed", "see that there is one path between any two bridges")
	} else {
		s.yes("stp", "bridges of weft have no spanning tree")
	}
	s.table(bridgeOptions, "BRIDGE", name)
}

// addPort adds a device to a bridge, once.
func (c *converter) addPort(b *bridge, name string, s *section, option, word string) {
	if why := deviceName(name); why != "" {
		s.item(No, option, word, why, "write a device")
		return
	}
	if b.byDevice[name] != nil || name == b.device {
		return
	}
	p := &port{device: name, s: s, option: option}
	b.ports = append(b.ports, p)
	b.byDevice[name] = p
	c.vlanDevice(s, option, name, fmt.Sprintf("is a port of [bridge.%s]", b.device), word)
}

// vlanDevice says once of each VLAN device that weft does not make it. item is what
// stands in the file.
func (c *converter) vlanDevice(s *section, option, name, is, item string) {
	at := strings.LastIndexByte(name, '.')
	if at < 1 || c.vlans[name] || c.devices[name] != nil && c.devices[name].kind != "" {
		return
	}
	id, err := strconv.Atoi(name[at+1:])
	if err != nil || id < 1 || id > 4094 {
		return
	}
	c.vlans[name] = true
	s.item(Differs, option, item, fmt.Sprintf("%s %s, and weft does not make VLAN devices", name, is),
		fmt.Sprintf("%sip link add link %s name %s type vlan id %d", vlanLink, name[:at], name, id))
}

// station reports whether a text is the link address of one station.
func station(text string) bool {
	parts := strings.Split(text, ":")
	if len(parts) != 6 {
		return false
	}
	zero := true
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 16, 8)
		if err != nil || len(part) != 2 || i == 0 && n&1 == 1 {
			return false
		}
		zero = zero && n == 0
	}
	return !zero
}

// judgeDevices says of each device what becomes of it, once it is known who has it.
func (c *converter) judgeDevices() {
	for _, s := range c.of("network", "device") {
		name := c.rename(s.value("name"))
		d := c.devices[name]
		switch {
		case d == nil || d.s != s:
			s.rest(No, fmt.Sprintf("the device %s is there twice", printable(name)), "keep one of the two")
		case d.kind == "bridge":
			c.finishBridge(c.bridgeOf[name], s)
		case d.kind != "":
			c.virtual(d)
		default:
			c.physical(d)
		}
	}
	for _, b := range c.bridges {
		if b.s.Type == "interface" {
			c.finishBridge(b, b.s)
		}
	}
	for name, l := range c.linkOf {
		if d := c.devices[name]; d != nil && d.kind == "" {
			l.promiscuous = l.promiscuous || d.s.on("promisc", false)
		}
	}
}

func (c *converter) finishBridge(b *bridge, s *section) {
	if b == nil || b.s != s {
		return
	}
	at := fmt.Sprintf("[bridge.%s]", b.device)
	if s.Type == "interface" {
		s.differs("type", at+": no port passes spanning tree, LLDP or 802.1X, nor frames with two tags", "see docs/features/bridge.md; if you need those, leave the bridge to your network manager")
		return
	}
	c.mtuOf(s, b.device)
	s.yes("name", at)
	s.differs("type", at+": no port passes spanning tree, LLDP or 802.1X, nor frames with two tags", "see docs/features/bridge.md; if you need those, leave the bridge to your network manager")
	s.table(deviceOptions, "DEVICE", b.device)
	s.yes("", at)
}

// virtual is a device that OpenWrt makes and weft does not.
func (c *converter) virtual(d *device) {
	if b, vlan := c.bridgeVLANOf(d.name); b != nil && vlan != 0 && vlan == b.hostVLAN && !b.plain {
		d.s.rest(Differs, fmt.Sprintf("VLAN %d is without a tag on %s itself, by host_vlan", vlan, b.device), "nothing to do; programs that name "+d.name+" now name "+b.device)
		return
	}
	lower := c.rename(d.s.value("ifname"))
	how := "by your network manager"
	id := cmpOr(d.s.value("vid"), "ID")
	switch d.kind {
	case "8021q", "8021ad":
		how = fmt.Sprintf("%sip link add link %s name %s type vlan id %s", strings.TrimPrefix(vlanLink, "make it "), printable(lower), d.name, printable(id))
		if d.kind == "8021ad" {
			how += " protocol 802.1ad"
		}
	case "macvlan":
		how += fmt.Sprintf(", or: ip link add link %s name %s type macvlan mode %s", printable(lower), d.name, printable(cmpOr(d.s.value("mode"), "private")))
	case "veth":
		how += fmt.Sprintf(", or: ip link add %s type veth peer name %s", d.name, printable(cmpOr(d.s.value("peer_name"), d.name+"-peer")))
	case "vrf":
		how += fmt.Sprintf(", or: ip link add %s type vrf table %s", d.name, printable(cmpOr(d.s.value("table"), "TABLE")))
	}
	c.mtuOf(d.s, d.name)
	d.s.rest(No, fmt.Sprintf("weft does not make devices of type %s", printable(d.kind)), "make "+d.name+" "+how)
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// physical is a device that is there, with settings.
func (c *converter) physical(d *device) {
	c.mtuOf(d.s, d.name)
	l := c.linkOf[d.name]
	if l != nil {
		d.s.yes("name", fmt.Sprintf("[interface.%s] device", l.name))
		d.s.yes("", fmt.Sprintf("[interface.%s]", l.name))
		d.s.yes("promisc", fmt.Sprintf("[interface.%s] promiscuous", l.name))
	} else {
		d.s.yes("name", "no interface has this device")
		d.s.yes("", "no interface has this device")
		d.s.no("promisc", "no interface has this device", "add [interface.NAME] with promiscuous = true")
	}
	d.s.table(deviceOptions, "DEVICE", d.name)
	d.s.rest(No, "weft does not set this of a device", "set it by ip link, ethtool or your network manager")
}

// mtuOf takes the MTU of a device to the interface that has it.
func (c *converter) mtuOf(s *section, name string) {
	if !s.has("mtu") {
		return
	}
	l := c.linkOf[name]
	n, err := strconv.Atoi(s.value("mtu"))
	switch {
	case err != nil || n < 68 || n > 65535:
		s.no("mtu", fmt.Sprintf("%q is no MTU", printable(s.value("mtu"))), "a number of bytes, like 1500")
	case l == nil:
		s.no("mtu", "no interface has this device", "add [interface.NAME] with mtu")
	case n < l.least():
		s.no("mtu", fmt.Sprintf("%d is too small for IPv6 (RFC 8200 section 5)", n), "1280 at least")
	default:
		l.mtu = n
		s.yes("mtu", fmt.Sprintf("[interface.%s] mtu", l.name))
	}
}
