package state

import (
	"fmt"
	"net/netip"
)

// Facts are the properties of the host that plans depend on.
type Facts struct {
	Links        []LinkFact
	Routes       []RouteFact                  // the host's own, as far as people, DHCP clients and router advertisements make them
	Translators  map[string]int               // ids in use, by name of the translator
	LNSes        map[string]int               // ids in use, by name of the access
	Builds       map[string]string            // program -> hash of its code
	Prefixes64   []Prefix64                   // prefixes of translators, in the order of the file
	PLAT         map[string]netip.Prefix      // prefix of the network's translator, by name of the CLAT that found it
	Delegated    []netip.Prefix               // space out of which routers behind this one have prefixes
	Paths        map[Endpoints]PseudowirePath // how packets get to the other ends of pseudowires
	Clients      map[string]L2TPClient        // what each [l2tp_client.NAME] has got
	Uplinks      map[string]Uplink            // which [uplink.NAME] do not answer probes
	Sharable     []string                     // NAMEs of translators whose sessions could be shared: the stateful ones
	SharableIDs  map[string]int               // their numbers in the datapath, as far as they are there
	Shared       []string                     // NAMEs of translators that share sessions with other routers
	PacketRules  []string                     // rules of the ruleset that look at each packet, and why flows cannot go past them
	Untracked    bool                         // no rule makes the kernel track connections
	RefusalRules []string                     // rules that may decide otherwise on the next packet of a refused flow, and why
	NameServer   []string                     // NAMEs of the interfaces on which weft answers DNS
	Advertises   []string                     // devices on which weft sends router advertisements
	Made         []string                     // devices that weft makes itself, and that may not be there yet
	Outsiders    []string                     // users and groups of weft.toml that the host does not have: "user NAME", "group NAME"
	NoVLANs      bool                         // the kernel's bridges are known to tell no VLANs apart
	Switch       SwitchFormat                 // tags of the switch behind conduits, SwitchNone: packets are taken at its ports
	Listed       map[string][]netip.Prefix    // what block lists outside of weft.toml hold, by their keys there; only for plans that people read
	Sysctls      map[string]string            // settings that matter to the checks, by name below /proc/sys
}

// Uplink says in which family an uplink is down.
type Uplink struct {
	Down4 bool `json:"down_ipv4,omitempty"`
	Down6 bool `json:"down_ipv6,omitempty"`
}

// Prefix64 is a prefix under which IPv4 is reached through a translator here (RFC
// 6052); DNS64 and router advertisements give it to clients.
type Prefix64 struct {
	Translator string
	Prefix     netip.Prefix
	Interfaces []string // NAMEs of the interfaces that the translator serves
}

// LinkFact is one network device.
type LinkFact struct {
	Name      string
	Index     int
	Kind      string // as `ip -d link` prints it; empty for a physical device
	MAC       [6]byte
	MTU       int
	Up        bool
	XDP       bool // its driver runs XDP programs that may redirect
	XDPTarget bool // it can be the target of an XDP redirect
	GRO       bool // it joins received packets (rx-gro)
	GROList   bool // it chains received packets instead of merging them (rx-gro-list)
	Addresses []netip.Prefix
	Encap     string  // what is received on it if that is no Ethernet frame, as ip link calls it (link/none, link/ppp); empty: Ethernet
	Manager   string  // the other program that configures it, empty if none is known
	Foreign   bool    // weft has not made it
	AcceptRA  bool    // the host took router advertisements there before weft made it a router
	LearntRA  bool    // and has addresses or routes of them
	Lower     string  // VLAN, port of a switch: the device below, if it is in this namespace
	Tag       VLANTag // VLAN: what its frames carry
	Master    string  // bridge, bond or VRF that it belongs to
	VRFTable  uint32  // VRF: the table of its members
	Filtering bool    // bridge: tells VLANs apart
	VLANAware bool    // bridge: its kernel could
	LimitsMAC bool    // bridge: its kernel can limit how many addresses it learns
	Peer      string  // veth: the other end, if it is in this namespace
	Port      int     // port of a switch (kind dsa): its number, counted from 1; 0: not known
	Tagging   string  // device in front of a switch: how the kernel calls the switch's tags
}

// RouteFact is a route of the main table that is not weft's; one with several
// next hops is several.
type RouteFact struct {
	Prefix   netip.Prefix
	Gateway  netip.Addr // zero: the destination is on the link
	Device   string
	Metric   int
	Protocol uint8 // RTPROT_: who made it
}

// String is about what ip route prints.
func (r RouteFact) String() string {
	text := r.Prefix.String()
	if r.Prefix.Bits() == 0 {
		text = "default"
	}
	if r.Gateway.IsValid() {
		text += " via " + r.Gateway.String()
	}
	return fmt.Sprintf("%s dev %s metric %d", text, r.Device, r.Metric)
}

// Beside returns a metric for a default route of weft's to one device, and the
// host's own routes that the kernel prefers to it. The default metric is left to the
// host: otherwise a DHCP client could not set its route.
func (f Facts) Beside(p netip.Prefix, device string) (metric int, ahead []RouteFact) {
	metric = 1
	if p.Addr().Is6() {
		metric += DefaultMetric6
	}
	taken := map[int]bool{}
	for _, r := range f.Routes {
		if r.Prefix == p && r.Device != device {
			taken[r.Metric] = true
		}
	}
	for taken[metric] {
		metric++
	}
	for _, r := range f.Routes {
		if r.Prefix == p && r.Device != device && r.Metric < metric {
			ahead = append(ahead, r)
		}
	}
	return metric, ahead
}

// Link finds a device by name.
func (f Facts) Link(name string) (LinkFact, bool) {
	for _, l := range f.Links {
		if l.Name == name {
			return l, true
		}
	}
	return LinkFact{}, false
}

// Beneath is a device on which frames of an interface above arrive, and the
// tags that they have there.
type Beneath struct {
	Device LinkFact
	Tags   VLANTags
}

// Below returns the lowest devices on which frames of an interface arrive visibly:
// the device under a VLAN, the ports of a bridge; the interface itself if nothing is
// below it.
func (f Facts) Below(l LinkFact) []Beneath {
	switch l.Kind {
	case "vlan":
		var tags VLANTags
		lower := l
		for lower.Kind == "vlan" && tags.Len() < len(tags) {
			tags = VLANTags{lower.Tag, tags[0]}
			below, there := f.Link(lower.Lower)
			if !there || lower.Lower == "" {
				return []Beneath{{Device: l}}
			}
			lower = below
		}
		if lower.Kind != "vlan" && lower.Kind != "bridge" && lower.MAC != [6]byte{} {
			return []Beneath{{lower, tags}}
		}
	case "bridge":
		var ports []Beneath
		for _, member := range f.Links {
			if member.Master == l.Name && !l.Filtering {
				ports = append(ports, Beneath{Device: member})
			}
		}
		if len(ports) > 0 {
			return ports
		}
	}
	return []Beneath{{Device: l}}
}

// Conduit returns the device in front of a switch on which frames of one of its
// ports arrive, and their tags there. false: the port is not of a switch with the
// facts' tag format, or facts are missing; why explains a problem, if there is one.
func (f Facts) Conduit(b Beneath) (conduit LinkFact, tags VLANTags, why string, ok bool) {
	if b.Device.Kind != "dsa" || f.Switch == SwitchNone || b.Tags.Len() == len(b.Tags) {
		return LinkFact{}, VLANTags{}, "", false
	}
	below, there := f.Link(b.Device.Lower)
	switch {
	case !there || b.Device.Port == 0:
		return LinkFact{}, VLANTags{}, fmt.Sprintf("the kernel does not tell behind which device and port of a switch %s is", b.Device.Name), false
	case below.Tagging != f.Switch.String():
		return LinkFact{}, VLANTags{}, fmt.Sprintf("the switch behind %s has tags of the kind %q, not %q", below.Name, below.Tagging, f.Switch), false
	}
	return below, VLANTags{{Proto: SwitchTag, ID: uint16(b.Device.Port - 1)}, b.Tags[0]}, "", true
}

// Arrivals returns the devices on which the frames of an interface are processed
// below it: its lowest devices, or their conduits.
func (f Facts) Arrivals(l LinkFact) []Beneath {
	below := f.Below(l)
	for i, b := range below {
		if conduit, tags, _, ok := f.Conduit(b); ok {
			below[i] = Beneath{conduit, tags}
		}
	}
	return below
}
