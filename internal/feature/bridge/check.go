package bridge

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
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
	if mac, ok := state.ParseMAC(s.MAC); c.Given("mac") && (!ok || mac[0]&1 == 1 || mac == [6]byte{}) {
		c.Error("mac", fmt.Sprintf("%q is not a station's link address", s.MAC), `like "02:00:00:00:10:01"`)
	}
	checkDevices(c, name, s)
	for i := range s.Ports {
		checkPort(c, s, portOf(c.File(), name, i), i)
	}
	checkHost(c, s)
	leaks(c, name, s)
}

// index is who was first with what only one may have, and which interfaces a device has.
type index struct {
	device     map[string]string // NAMEs, by device
	port       map[string]string // paths, by device
	interfaces map[string][]string
}

// first returns the index of the file, which stands on its first bridge: there may be
// thousands, and each is held against all others.
func first(f *config.File) *index {
	names := f.Names("bridge")
	s := From(f, names[0])
	if s.index != nil {
		return s.index
	}
	s.index = &index{map[string]string{}, map[string]string{}, map[string][]string{}}
	for _, name := range names {
		o := From(f, name)
		if _, taken := s.index.device[o.Device]; !taken {
			s.index.device[o.Device] = name
		}
		for i, p := range o.Ports {
			device := DeviceNamed(f, p.Interface)
			if _, taken := s.index.port[device]; !taken {
				s.index.port[device] = portPath(name, i)
			}
		}
	}
	for _, n := range f.Names("interface") {
		device := f.Interface(n).Device
		s.index.interfaces[device] = append(s.index.interfaces[device], n)
	}
	return s.index
}

// checkDevices finds devices that are in two bridges, or twice in one, here or
// in a section before this one.
func checkDevices(c *config.Checker, name string, s *Config) {
	all := first(c.File())
	if other := all.device[s.Device]; other != name {
		c.Error("", fmt.Sprintf("bridge.%s is the device %q too", other, s.Device), "give each bridge a device of its own")
	}
	for i, p := range s.Ports {
		device := DeviceNamed(c.File(), p.Interface)
		key := fmt.Sprintf("ports[%d].interface", i)
		if at := all.port[device]; at != portPath(name, i) {
			c.Error(key, fmt.Sprintf("%s is %s already", device, at), "a device is a port of one bridge, once")
		}
		if device == s.Device {
			c.Error(key, "a bridge cannot be its own port", "name the devices that it joins")
		}
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
		mac, ok := state.ParseMAC(text)
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
			c.Error("host", fmt.Sprintf("interface.%s has addresses on the bridge, but the router is not part of the bridge: they cannot be reached", name), "set host = true if the router must be reachable from the bridge")
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
