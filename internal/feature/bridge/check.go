package bridge

import (
	"fmt"
	"slices"

	"weft/internal/config"
)

func check(c *config.Checker, name string, s *Config) {
	if what, remedy := config.DeviceNameFault(s.Device); what != "" {
		key := "device"
		if !c.Given(key) {
			key = ""
		}
		if remedy == "" {
			remedy = "set device to a shorter name"
		}
		c.Error(key, what, remedy)
	}
	if mac, ok := parseMAC(s.MAC); c.Given("mac") && (!ok || mac[0]&1 == 1 || mac == [6]byte{}) {
		c.Error("mac", fmt.Sprintf("%q is not a station's link address", s.MAC), `like "02:00:00:00:10:01"`)
	}
	checkDevices(c, name, s)
	for i := range s.Ports {
		checkPort(c, s, portOf(c.File(), name, i), i)
	}
	checkHost(c, s)
	leaks(c, name, s)
}

// checkDevices finds devices that are in two bridges, or twice in one, here or
// in a section before this one.
func checkDevices(c *config.Checker, name string, s *Config) {
	f := c.File()
	places := map[string]string{}
	for _, other := range f.Names("bridge") {
		o := From(f, other)
		if other != name && o.Device == s.Device {
			c.Error("", fmt.Sprintf("bridge.%s is the device %q too", other, s.Device), "give each bridge a device of its own")
			break
		}
		if other == name {
			break
		}
		for i := range o.Ports {
			p := portOf(f, other, i)
			places[p.Device] = p.Path
		}
	}
	for i := range s.Ports {
		p := portOf(f, name, i)
		key := fmt.Sprintf("ports[%d].interface", i)
		if at, taken := places[p.Device]; taken {
			c.Error(key, fmt.Sprintf("%s is %s already", p.Device, at), "a device is a port of one bridge, once")
		}
		if p.Device == s.Device {
			c.Error(key, "a bridge cannot be its own port", "name the devices that it joins")
		}
		places[p.Device] = p.Path
	}
}

func checkPort(c *config.Checker, s *Config, p port, i int) {
	at := func(key string) string { return fmt.Sprintf("ports[%d].%s", i, key) }
	if what, remedy := config.DeviceNameFault(p.Device); what != "" {
		c.Error(at("interface"), what, remedy)
	}
	seen := map[[6]byte]bool{}
	for n, text := range p.Port.MACs {
		key := fmt.Sprintf("%s[%d]", at("macs"), n)
		mac, ok := parseMAC(text)
		switch {
		case !ok:
			c.Error(key, fmt.Sprintf("%q is not a link address", text), `like "02:00:00:00:00:01"`)
		case mac[0]&1 == 1 || mac == [6]byte{}:
			c.Error(key, fmt.Sprintf("no station sends as %s", text), "write the address of one device")
		case seen[mac]:
			c.Error(key, fmt.Sprintf("%s is listed twice", text), "take one of the two out")
		}
		seen[mac] = true
	}
	for n, v := range p.VLANs {
		if slices.Contains(p.VLANs[:n], v) {
			c.Error(fmt.Sprintf("%s[%d]", at("vlans"), n), fmt.Sprintf("VLAN %d is listed twice", v), "take one of the two out")
		}
		if v == p.VLAN {
			c.Error(at("vlan"), fmt.Sprintf("VLAN %d cannot be with and without a tag", v), "take it out of vlans")
		}
	}
	if p.Locked && len(p.Port.MACs) == 0 {
		c.Error(at("locked"), "no address may send: there are no macs", "list the addresses behind the port in macs")
	}
	if len(p.Addresses) > 0 && (!s.NeighSuppress || len(p.Port.MACs) != 1) {
		c.Error(at("addresses"), "the bridge can answer for them only with neigh_suppress = true and one address in macs", "add those, or take addresses out")
	}
	if p.Kind != Tap && (p.Owner != "" || p.Group != "" || p.MultiQueue) {
		c.Error(at("kind"), "owner, group and multi_queue are a tap device's", `write kind = "tap"`)
	}
	if p.Kind != Veth && p.Port.Peer != "" {
		c.Error(at("peer"), "only a veth pair has another end", `write kind = "veth"`)
	}
	if what, remedy := config.DeviceNameFault(p.Peer); p.Kind == Veth && what != "" {
		c.Error(at("interface"), "its other end: "+what, cmpOr(remedy, "set peer to a shorter name"))
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func checkHost(c *config.Checker, s *Config) {
	if s.Host {
		if slices.Contains(s.HostVLANs, s.hostVLAN(c.File(), c.Path(""))) {
			c.Error("host_vlans", fmt.Sprintf("VLAN %d cannot be with and without a tag", s.hostVLAN(c.File(), c.Path(""))), "take it out of host_vlans, or set another host_vlan")
		}
		return
	}
	for _, key := range []string{"host_vlan", "host_vlans"} {
		if c.Given(key) {
			c.Error(key, "the router takes no part in the bridge", "write host = true, or take it out")
		}
	}
	for _, name := range c.File().Names("interface") {
		if i := c.File().Interface(name); i.Device == s.Device && len(i.Addresses) > 0 {
			c.Error("host", fmt.Sprintf("interface.%s has addresses on the bridge, and the router takes no part in it: nobody would reach them", name), "write host = true if the router is to be reached from the bridge")
		}
	}
}

// hostVLAN is the VLAN that the router has without a tag.
func (s *Config) hostVLAN(f *config.File, path string) int {
	if f.Given(path+".host_vlan") || f.Given(path+"host_vlan") {
		return s.HostVLAN
	}
	return s.VLAN
}

// vlans are all of a port's.
func (p port) vlans() []int {
	if p.PVID == 0 {
		return p.VLANs
	}
	return append([]int{p.PVID}, p.VLANs...)
}

func share(a, b []int) (int, bool) {
	for _, v := range a {
		if slices.Contains(b, v) {
			return v, true
		}
	}
	return 0, false
}

// leaks warns of every way that the file leaves from a guest to the router, to
// infrastructure, or to another guest.
func leaks(c *config.Checker, name string, s *Config) {
	f := c.File()
	hostVLANs := append([]int{s.hostVLAN(f, c.Path(""))}, s.HostVLANs...)
	var ports []port
	for i := range s.Ports {
		ports = append(ports, portOf(f, name, i))
	}
	hosts := 0
	for i, p := range ports {
		at := func(key string) string {
			if key = fmt.Sprintf("ports[%d].%s", i, key); c.Given(key) {
				return key
			}
			return fmt.Sprintf("ports[%d]", i)
		}
		for _, n := range f.Names("interface") {
			if in := f.Interface(n); in.Device == p.Device && len(in.Addresses) > 0 {
				c.Error(at("interface"), fmt.Sprintf("interface.%s has addresses, and what arrives on a bridge's port goes to the bridge", n), "put the addresses on the bridge with host = true, or take them out")
			}
		}
		if p.Role != Guest {
			continue
		}
		if v, both := share(p.vlans(), hostVLANs); s.Host && both {
			if hosts++; hosts == 1 {
				c.Warn("host", fmt.Sprintf("the guest at %s shares VLAN %d with the router, and reaches all that listens there", p.Device, v), "leave host out, or give the router a VLAN without guests")
			}
		}
		if !p.Isolated {
			c.Warn(at("isolated"), fmt.Sprintf("the guest at %s reaches other guests that are not isolated", p.Device), "leave isolated out")
		}
		if !p.Locked {
			c.Warn(at("locked"), fmt.Sprintf("the guest at %s may use any link address that nobody has", p.Device), "list its addresses in macs")
		}
		if p.DHCPServer {
			c.Warn(at("dhcp_server"), fmt.Sprintf("the guest at %s may hand out addresses", p.Device), "leave dhcp_server out")
		}
		if p.Router {
			c.Warn(at("router"), fmt.Sprintf("the guest at %s may name itself the router of others", p.Device), "leave router out")
		}
		for _, limit := range []struct {
			key string
			n   int
		}{{"broadcast", p.Broadcast}, {"multicast", p.Multicast}, {"unknown_unicast", p.Unknown}} {
			if limit.n == 0 {
				c.Warn(at(limit.key), fmt.Sprintf("nothing limits what the guest at %s floods", p.Device), "leave "+limit.key+" out")
			}
		}
		if p.MaxMACs == 0 && !p.Locked {
			c.Warn(at("max_macs"), fmt.Sprintf("the guest at %s may fill the bridge's table with addresses", p.Device), "leave max_macs out")
		}
		for _, q := range ports {
			if v, both := share(p.vlans(), q.vlans()); both && q.Role == Infrastructure {
				c.Warn(at("vlan"), fmt.Sprintf("the guest at %s is in VLAN %d with the infrastructure at %s: weft's programs alone keep them apart", p.Device, v, q.Device), "give infrastructure a VLAN, or a bridge, of its own")
				break
			}
		}
	}
	if s.Host && hosts > 0 && f.Router().Forwarding {
		c.Warn("host", "with forwarding on in [router], guests reach through the router all that it reaches, each other too", "filter what comes from the bridge in the firewall's FORWARD chain")
	}
	routedPorts(c, ports)
}

// routedPorts finds ports that another section wants XDP on.
func routedPorts(c *config.Checker, ports []port) {
	f := c.File()
	for i, p := range ports {
		for _, n := range f.Names("interface") {
			if in := f.Interface(n); in.Device == p.Device && in.Hook == config.HookXDP {
				c.Error(fmt.Sprintf("ports[%d].interface", i), fmt.Sprintf("interface.%s wants XDP, which would see frames before the port's guards do", n), fmt.Sprintf(`write hook = "tc" in [interface.%s]`, n))
			}
		}
	}
}
