// Package bridge makes Ethernet bridges that leak nothing: guests reach what
// they are meant to, and neither the router nor each other unless weft.toml
// says so. Sections [bridge.NAME] of weft.toml ask for it.
package bridge

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// Config is [bridge.NAME].
type Config struct {
	Device        string `toml:"device" example:"\"guests\"" doc:"The Linux device that weft creates. Default: NAME."`
	MAC           string `toml:"mac" example:"\"02:00:00:00:10:01\"" doc:"The bridge's own link address. Default: the kernel's choice."`
	Ports         []Port `toml:"ports" required:"true" example:"[{ interface = \"eth1\", role = \"uplink\" }, { interface = \"vm1\", kind = \"tap\" }]" doc:"The ports of the bridge. A device that does not exist yet joins when it appears."`
	VLAN          int    `toml:"vlan" min:"1" max:"4094" example:"1" doc:"The VLAN of ports without a VLAN of their own."`
	Host          bool   `toml:"host" example:"false" doc:"Whether the router itself takes part in the bridge. Without it no frame passes between the bridge and the router, IPv6 link-local ones included."`
	HostVLAN      int    `toml:"host_vlan" min:"1" max:"4094" example:"1" doc:"With host: the VLAN that the router uses without a tag, on the bridge's own device. Default: vlan."`
	HostVLANs     []int  `toml:"host_vlans" min:"1" max:"4094" example:"[30]" doc:"With host: the VLANs that reach the router with their tags, for VLAN devices on top of the bridge."`
	MaxMACs       int    `toml:"max_macs" min:"0" max:"65536" example:"4096" doc:"Maximum number of link addresses that the bridge learns, where the kernel can limit it (Linux 6.8); 0: no limit."`
	NeighSuppress bool   `toml:"neigh_suppress" example:"false" doc:"The bridge answers ARP and neighbour discovery for the addresses of ports itself, and does not forward such requests to guests."`
	Snooping      bool   `toml:"multicast_snooping" example:"true" doc:"Multicast snooping: frames go only to ports that have joined the group (IGMP, MLD), after a querier was received."`

	index *index // on the first of the file
}

// Port is one of ports. What is not given depends on its role.
type Port struct {
	Interface  string       `toml:"interface" required:"true" example:"\"vm1\"" doc:"The NAME of an [interface.NAME] or [pseudowire.NAME], or a device."`
	Role       Role         `toml:"role" enum:"guest,uplink,infrastructure" example:"\"guest\"" doc:"The role of the port. A guest is untrusted. All guests share the uplink. Infrastructure never exchanges frames with guests. Default: guest."`
	VLAN       int          `toml:"vlan" min:"1" max:"4094" example:"10" doc:"The VLAN of its frames without a tag. Default: the bridge's, or none if vlans is given."`
	VLANs      []int        `toml:"vlans" min:"1" max:"4094" example:"[10, 20]" doc:"The VLANs whose frames carry tags here: a trunk."`
	Isolated   bool         `toml:"isolated" example:"true" doc:"The port exchanges no frames with other isolated ports. Default: true for guests."`
	MACs       []string     `toml:"macs" example:"[\"02:00:00:00:00:01\"]" doc:"The link addresses at this port. No other port may use them."`
	Locked     bool         `toml:"locked" example:"true" doc:"Accept only the addresses of macs as source. Default: true if there are any."`
	Addresses  []netip.Addr `toml:"addresses" example:"[\"192.0.2.10\", \"2001:db8:1::10\"]" doc:"With neigh_suppress and one address in macs: the IP addresses that the bridge answers for."`
	MaxMACs    int          `toml:"max_macs" min:"0" max:"64" example:"4" doc:"Maximum number of link addresses at this port at a time; 0: no limit. Default: 4 for guests."`
	Broadcast  int          `toml:"broadcast" min:"0" max:"10000000" example:"200" doc:"Maximum number of broadcast frames per second from this port; 0: no limit. Default: 200 for guests."`
	Multicast  int          `toml:"multicast" min:"0" max:"10000000" example:"1000" doc:"Maximum number of multicast frames per second. Default: 1000 for guests."`
	Unknown    int          `toml:"unknown_unicast" min:"0" max:"10000000" example:"500" doc:"Maximum number of frames per second to unknown addresses. Default: 500 for guests."`
	DHCPServer bool         `toml:"dhcp_server" example:"false" doc:"Accept messages of DHCP and DHCPv6 servers (RFC 7610). Default: false for guests."`
	Router     bool         `toml:"router" example:"false" doc:"Accept router advertisements and redirects (RFC 6105). Default: false for guests."`
	Kind       Kind         `toml:"kind" enum:"tap,veth" example:"\"tap\"" doc:"Create the device: tap (QEMU, and UML's tap and hybrid transports) or veth (a pair, for UML's raw transport). Without it the device is created by another program."`
	Peer       string       `toml:"peer" example:"\"vm1-raw\"" doc:"The other end of a veth pair, which the guest's raw socket binds. Default: the device's name and -raw."`
	Owner      string       `toml:"owner" example:"\"libvirt-qemu\"" doc:"The user who may open a tap device. Default: root alone."`
	Group      string       `toml:"group" example:"\"kvm\"" doc:"The group that may open a tap device."`
	MultiQueue bool         `toml:"multi_queue" example:"false" doc:"Create a tap device with several queues, for a guest that opens it so."`
	Offloads   bool         `toml:"offloads" example:"true" doc:"With false the device and its peer carry no GSO packets, for guests that do not accept them: User-Mode Linux without gro=1. Default: false for veth, else true."`
}

// Role says who is behind a port.
type Role string

const (
	Guest          Role = "guest"
	Uplink         Role = "uplink"
	Infrastructure Role = "infrastructure"
)

// Kind is what a device is made as.
type Kind string

const (
	Tap  Kind = "tap"
	Veth Kind = "veth"
)

// What a guest may without being asked.
const (
	guestMACs      = 4
	guestBroadcast = 200
	guestMulticast = 1000
	guestUnknown   = 500
)

// Section is what config.Load needs to read [bridge.NAME].
func Section() config.Section {
	return config.Section{
		Name: "bridge", Named: true,
		Doc: "An isolated Ethernet bridge for guests, virtual machines and remote sites.",
		New: func(name string) any {
			return &Config{Device: name, VLAN: 1, HostVLAN: 1, MaxMACs: 4096, Snooping: true}
		},
		Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
	}
}

// From returns the section [bridge.NAME] of f.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("bridge", name).(*Config)
	return c
}

// Devices lists the devices that the [bridge.NAME] sections make, beside the
// NAMEs whose ports they are.
func Devices(f *config.File) []string {
	var list []string
	for _, name := range f.Names("bridge") {
		c := From(f, name)
		list = append(list, c.Device)
		for i := range c.Ports {
			if p := portOf(f, name, i); p.Kind != "" {
				list = append(list, p.Device)
			}
		}
	}
	return list
}

// Ports lists the devices that are ports of the [bridge.NAME] sections.
func Ports(f *config.File) []string {
	var list []string
	for _, name := range f.Names("bridge") {
		for _, p := range From(f, name).Ports {
			list = append(list, DeviceNamed(f, p.Interface))
		}
	}
	return list
}

// DeviceNamed returns the device that a port's interface stands for: that of the
// section of this NAME, if there is one.
func DeviceNamed(f *config.File, name string) string {
	for _, section := range []string{"interface", "pseudowire"} {
		switch s := f.Get(section, name).(type) {
		case *config.Interface:
			return s.Device
		case interface{ DeviceName() string }:
			return s.DeviceName()
		}
	}
	return name
}

// port is one of ports with everything worked out.
type port struct {
	Port
	Device string
	Path   string
	MACs   [][6]byte
	PVID   int
}

// portPath is where a port stands in the file.
func portPath(name string, i int) string { return fmt.Sprintf("bridge.%s.ports[%d]", name, i) }

func portOf(f *config.File, name string, i int) port {
	c := From(f, name)
	p := port{Port: c.Ports[i], Path: portPath(name, i)}
	given := func(key string) bool { return f.Given(p.Path + "." + key) }
	p.Device = DeviceNamed(f, p.Interface)
	if p.Role == "" {
		p.Role = Guest
	}
	guest := p.Role == Guest
	for _, text := range p.Port.MACs {
		if mac, ok := state.ParseMAC(text); ok {
			p.MACs = append(p.MACs, mac)
		}
	}
	boolean := func(v *bool, key string, otherwise bool) {
		if !given(key) {
			*v = otherwise
		}
	}
	boolean(&p.Isolated, "isolated", guest)
	boolean(&p.Locked, "locked", len(p.MACs) > 0)
	boolean(&p.DHCPServer, "dhcp_server", !guest)
	boolean(&p.Router, "router", !guest)
	boolean(&p.Offloads, "offloads", p.Kind != Veth)
	limit := func(v *int, key string, forGuests int) {
		if !given(key) && guest {
			*v = forGuests
		}
	}
	limit(&p.MaxMACs, "max_macs", guestMACs)
	limit(&p.Broadcast, "broadcast", guestBroadcast)
	limit(&p.Multicast, "multicast", guestMulticast)
	limit(&p.Unknown, "unknown_unicast", guestUnknown)
	p.PVID = p.VLAN
	if p.PVID == 0 && len(p.VLANs) == 0 {
		p.PVID = c.VLAN
	}
	if p.Kind == Veth && p.Peer == "" {
		p.Peer = p.Device + "-raw"
	}
	return p
}

func (p port) role() state.BridgeRole {
	switch p.Role {
	case Uplink:
		return state.BridgeUplink
	case Infrastructure:
		return state.BridgeInfrastructure
	}
	return state.BridgeGuest
}
