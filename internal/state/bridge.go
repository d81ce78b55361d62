package state

import (
	"fmt"
	"net/netip"
	"strings"
)

// Bridge is an Ethernet bridge that weft makes and owns. It takes no part in
// spanning tree and forwards no frames that stay on one link.
type Bridge struct {
	Name       string
	Owner      string  // section of weft.toml; kept as the link's alias
	MAC        [6]byte // zero: the kernel's choice
	VLANs      bool    // the kernel tells VLANs apart
	Snooping   bool    // multicast goes where it is asked for
	MaxLearned uint32  // most addresses that it learns; 0: no limit, or none that the kernel knows
}

func (b Bridge) Key() string    { return "bridge " + b.Name }
func (b Bridge) Domain() Domain { return Kernel }
func (b Bridge) String() string {
	s := fmt.Sprintf("bridge %s vlan-filtering %v snooping %v", b.Name, b.VLANs, b.Snooping)
	if b.MAC != ([6]byte{}) {
		s += " mac " + MACString(b.MAC)
	}
	if b.MaxLearned != 0 {
		s += fmt.Sprintf(" max-learned %d", b.MaxLearned)
	}
	return s + " for " + b.Owner
}

// GuestDevice is a device that weft makes for a guest to plug into.
type GuestDevice struct {
	Name       string
	Kind       string // tap or veth
	Peer       string // veth: the end that the guest's raw socket binds
	User       string // tap: who may open it; empty: root
	Group      string
	MultiQueue bool   // tap
	Owner      string // section of weft.toml; kept as the link's alias
}

func (g GuestDevice) Key() string    { return "guest-device " + g.Name }
func (g GuestDevice) Domain() Domain { return Kernel }
func (g GuestDevice) String() string {
	s := fmt.Sprintf("guest-device %s kind %s", g.Name, g.Kind)
	for _, word := range []struct{ name, value string }{{"peer", g.Peer}, {"user", g.User}, {"group", g.Group}} {
		if word.value != "" {
			s += " " + word.name + " " + word.value
		}
	}
	if g.MultiQueue {
		s += " multi-queue"
	}
	return s + " for " + g.Owner
}

// NoOffloads makes a device send and receive frames as on a cable: no segments to
// cut, no checksums to fill in. The former settings are restored at the end.
type NoOffloads struct {
	Device string
}

func (o NoOffloads) Key() string    { return "no-offloads " + o.Device }
func (o NoOffloads) Domain() Domain { return Kernel }
func (o NoOffloads) String() string { return o.Key() }

// BridgePort is a device's membership in a bridge. Its former bridge gets it back
// when weft is unloaded.
type BridgePort struct {
	Device   string
	Bridge   string
	Isolated bool // exchanges nothing with other isolated ports
	Locked   bool // only addresses that stand in the bridge's table may send
	Suppress bool // the bridge answers ARP and neighbour discovery there
	Guest    bool // no multicast router is there, and no bridge
}

func (p BridgePort) Key() string    { return "bridge-port " + p.Device }
func (p BridgePort) Domain() Domain { return Kernel }
func (p BridgePort) String() string {
	s := fmt.Sprintf("bridge-port %s of %s", p.Device, p.Bridge)
	for _, word := range []struct {
		name string
		on   bool
	}{{"isolated", p.Isolated}, {"locked", p.Locked}, {"suppress", p.Suppress}, {"guest", p.Guest}} {
		if word.on {
			s += " " + word.name
		}
	}
	return s
}

// BridgeVLAN adds a VLAN to a port, or to the bridge's own device.
type BridgeVLAN struct {
	Device   string
	VLAN     uint16
	Untagged bool // its frames carry no tag there
	Self     bool // Device is the bridge
}

func (v BridgeVLAN) Key() string    { return fmt.Sprintf("bridge-vlan %d on %s", v.VLAN, v.Device) }
func (v BridgeVLAN) Domain() Domain { return Kernel }
func (v BridgeVLAN) String() string {
	if v.Untagged {
		return v.Key() + " untagged"
	}
	return v.Key()
}

// BridgeAddress is a static link address in a bridge's table.
type BridgeAddress struct {
	Device string // the port
	MAC    [6]byte
	VLAN   uint16 // 0: the bridge knows none
}

func (a BridgeAddress) Key() string {
	s := fmt.Sprintf("bridge-address %s on %s", MACString(a.MAC), a.Device)
	if a.VLAN != 0 {
		s += fmt.Sprintf(" vlan %d", a.VLAN)
	}
	return s
}
func (a BridgeAddress) Domain() Domain { return Kernel }
func (a BridgeAddress) String() string { return a.Key() }

// Neighbour is a permanent entry of the kernel's neighbour table.
type Neighbour struct {
	Device string
	Addr   netip.Addr
	MAC    [6]byte
}

func (n Neighbour) Key() string    { return fmt.Sprintf("neighbour %s dev %s", n.Addr, n.Device) }
func (n Neighbour) Domain() Domain { return Kernel }
func (n Neighbour) String() string { return n.Key() + " " + MACString(n.MAC) }

// BridgeRole is the kind of station behind a port.
type BridgeRole uint32

func (r BridgeRole) String() string {
	names := [...]string{"none", "guest", "uplink", "infrastructure", "host"}
	return names[min(int(r), len(names)-1)]
}

// BridgeGuard is the filter of the programs on a port of a bridge; also on the
// bridge's own device, for the router.
type BridgeGuard struct {
	Device   string
	Bridge   string
	Role     BridgeRole
	Member   bool // takes part at all
	Tags     bool // the programs tell VLANs apart, not the kernel
	Isolated bool
	Locked   bool
	NoDHCP   bool
	NoRA     bool
	Suppress bool
	PVID     uint16 // of frames without a tag; 0: none
	VLANs    string // with a tag: numbers with commas
	MaxMACs  int
	// frames a second; 0: no limit
	Broadcast, Multicast, Unknown int
}

func (g BridgeGuard) Key() string    { return "bridge-guard " + g.Device }
func (g BridgeGuard) Domain() Domain { return Datapath }
func (g BridgeGuard) String() string {
	s := fmt.Sprintf("bridge-guard %s of %s %s", g.Device, g.Bridge, g.Role)
	for _, word := range []struct {
		name string
		on   bool
	}{{"member", g.Member}, {"tags", g.Tags}, {"isolated", g.Isolated}, {"locked", g.Locked},
		{"no-dhcp", g.NoDHCP}, {"no-ra", g.NoRA}, {"suppress", g.Suppress}} {
		if word.on {
			s += " " + word.name
		}
	}
	for _, word := range []struct {
		name string
		n    int
	}{{"vlan", int(g.PVID)}, {"max-macs", g.MaxMACs}, {"broadcast", g.Broadcast}, {"multicast", g.Multicast}, {"unknown", g.Unknown}} {
		if word.n != 0 {
			s += fmt.Sprintf(" %s %d", word.name, word.n)
		}
	}
	if g.VLANs != "" {
		s += " vlans " + g.VLANs
	}
	return s
}

// Station is a source address that weft.toml gives to one port.
type Station struct {
	Bridge string
	Device string
	MAC    [6]byte
}

func (s Station) Key() string    { return fmt.Sprintf("station %s of %s", MACString(s.MAC), s.Bridge) }
func (s Station) Domain() Domain { return Datapath }
func (s Station) String() string { return s.Key() + " at " + s.Device }

// LearnedMAC is a source address that was seen at a port.
type LearnedMAC struct {
	Bridge, Device string
	MAC            [6]byte
	Fixed          bool   // of weft.toml
	Seen           uint64 // nanoseconds of the kernel's monotonic clock; 0: not yet
}

// MACString writes a link address as ip link does.
func MACString(m [6]byte) string {
	parts := make([]string, len(m))
	for i, b := range m {
		parts[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(parts, ":")
}

// ParseMAC reads a link address: six bytes in hexadecimal with colons or hyphens.
func ParseMAC(text string) (mac [6]byte, ok bool) {
	if len(text) != 17 {
		return mac, false
	}
	for i := range mac {
		var b byte
		for _, c := range []byte(text[3*i : 3*i+2]) {
			switch {
			case c >= '0' && c <= '9':
				b = b<<4 | (c - '0')
			case c|0x20 >= 'a' && c|0x20 <= 'f':
				b = b<<4 | (c | 0x20 - 'a' + 10)
			default:
				return mac, false
			}
		}
		mac[i] = b
		if i < 5 && text[3*i+2] != ':' && text[3*i+2] != '-' {
			return mac, false
		}
	}
	return mac, true
}
