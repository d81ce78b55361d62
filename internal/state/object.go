package state

import (
	"fmt"
	"net/netip"
)

// Object is something that weft wants to exist, or finds, in the kernel or in the
// datapath. Two objects with the same Key are the same thing; if they are not equal,
// it has to be changed. Objects are comparable.
type Object interface {
	Key() string    // kind and identity, like "route 192.0.2.0/24 dev nat64-main"
	String() string // all of it, as `weft plan` prints it
	Domain() Domain
}

// Domain is the subsystem that holds an object.
type Domain uint8

const (
	Kernel   Domain = iota // netlink and sysctl
	Datapath               // eBPF
)

// Desired are the objects that must exist, in the order of their creation. They are
// removed in the reverse order.
type Desired []Object

// Device is a virtual device that weft creates and owns: a persistent TAP without
// ARP. The stack routes packets to it for a program on it.
type Device struct {
	Name  string
	MAC   [6]byte
	MTU   int
	Owner string // section of weft.toml that it serves; kept as the link's alias
}

func (d Device) Key() string    { return "device " + d.Name }
func (d Device) Domain() Domain { return Kernel }
func (d Device) String() string {
	return fmt.Sprintf("device %s kind tap mtu %d for %s", d.Name, d.MTU, d.Owner)
}

// Link are settings of a device that weft does not own: it is up, and has this MTU
// unless it is 0. The former settings are restored at the end.
type Link struct {
	Name string
	MTU  int
}

func (l Link) Key() string    { return "link " + l.Name }
func (l Link) Domain() Domain { return Kernel }
func (l Link) String() string {
	s := fmt.Sprintf("link %s up", l.Name)
	if l.MTU != 0 {
		s += fmt.Sprintf(" mtu %d", l.MTU)
	}
	return s
}

// AllMulticast sets a device to all-multicast mode. The former mode is restored at
// the end.
type AllMulticast struct {
	Device string
}

func (a AllMulticast) Key() string    { return "allmulticast on " + a.Device }
func (a AllMulticast) Domain() Domain { return Kernel }
func (a AllMulticast) String() string { return a.Key() }

// Promiscuous sets a device to promiscuous mode. The former mode is restored at the
// end.
type Promiscuous struct {
	Device string
}

func (p Promiscuous) Key() string    { return "promiscuous " + p.Device }
func (p Promiscuous) Domain() Domain { return Kernel }
func (p Promiscuous) String() string { return p.Key() }

// TagsInFrames makes a device leave VLAN tags in received frames. An XDP program
// does not see tags that the device stores beside them, and would take a VLAN's
// frames for the device's own. The former setting is restored at the end.
type TagsInFrames struct {
	Device string
}

func (t TagsInFrames) Key() string    { return "vlan tags in frames of " + t.Device }
func (t TagsInFrames) Domain() Domain { return Kernel }
func (t TagsInFrames) String() string { return t.Key() }

// Address is an address with its subnet on a device.
type Address struct {
	Device string
	Prefix netip.Prefix // the host's own address, not masked
}

func (a Address) Key() string    { return fmt.Sprintf("address %s dev %s", a.Prefix, a.Device) }
func (a Address) Domain() Domain { return Kernel }
func (a Address) String() string { return a.Key() }

// Route sends a prefix to a device.
type Route struct {
	Prefix  netip.Prefix
	Device  string
	Gateway netip.Addr // zero: the prefix is on the link
	MTU     int        // 0: the device's
	Metric  int        // 0: the kernel's own, which is 0 for IPv4 and DefaultMetric6 for IPv6
}

// DefaultMetric6 is what the kernel makes of an IPv6 route without a metric
// (IP6_RT_PRIO_USER in include/net/ip6_route.h).
const DefaultMetric6 = 1024

// Key includes the metric: the kernel distinguishes routes of one prefix by it.
func (r Route) Key() string {
	if r.Metric != 0 {
		return fmt.Sprintf("route %s dev %s metric %d", r.Prefix, r.Device, r.Metric)
	}
	return fmt.Sprintf("route %s dev %s", r.Prefix, r.Device)
}
func (r Route) Domain() Domain { return Kernel }
func (r Route) String() string {
	text := r.Key()
	if r.Gateway.IsValid() {
		text += fmt.Sprintf(" via %s", r.Gateway)
	}
	if r.MTU != 0 {
		text += fmt.Sprintf(" mtu %d", r.MTU)
	}
	return text
}

// Sysctl is a kernel setting. The former value is restored at the end.
type Sysctl struct {
	Name  string // below /proc/sys, like net/ipv4/ip_forward
	Value string
}

func (s Sysctl) Key() string    { return "sysctl " + s.Name }
func (s Sysctl) Domain() Domain { return Kernel }
func (s Sysctl) String() string { return fmt.Sprintf("sysctl %s = %s", s.Name, s.Value) }

// Hook is the place on a device where a program is attached.
type Hook string

const (
	HookXDP     Hook = "xdp"
	HookIngress Hook = "tc-ingress"
	HookEgress  Hook = "tc-egress"
)

// Attachment is a program on a device.
type Attachment struct {
	Device  string
	Hook    Hook
	Program string // name of the program, as in bpf/
	Build   string // short hash of the program's code: an upgrade is a change
}

func (a Attachment) Key() string {
	return fmt.Sprintf("program %s on %s %s", a.Program, a.Device, a.Hook)
}
func (a Attachment) Domain() Domain { return Datapath }
func (a Attachment) String() string {
	return fmt.Sprintf("program %s on %s %s build %s", a.Program, a.Device, a.Hook, a.Build)
}

// IngressEntry is what the programs know about an interface of weft.toml.
type IngressEntry struct {
	Device      string
	Index       int // interface index
	MAC         [6]byte
	Translators uint64 // bit per translator that serves it
	Roles       Roles  // what it is for
	Table       int    // of weft's own routes, 0..RouteTablesMax-1
}

func (p IngressEntry) Key() string    { return "ingress-entry " + p.Device }
func (p IngressEntry) Domain() Domain { return Datapath }
func (p IngressEntry) String() string {
	s := fmt.Sprintf("ingress-entry %s translators %#x bypass %v xdp-out %v", p.Device, p.Translators, p.Roles.Has(RoleBypass), p.Roles.Has(RoleXDPOut))
	if p.Roles.Has(RoleRouted) {
		s += fmt.Sprintf(" routed by table %d", p.Table)
	}
	for i, name := range rolesNames() {
		r := Roles(1) << i
		if p.Roles.Has(r) && r&(RoleBypass|RoleXDPOut|RoleRouted) == 0 {
			s += " " + name
		}
	}
	return s
}

// Hooked is an object on an interface whose packets the first program there handles: the
// planner decides whether that is in XDP.
type Hooked interface {
	Object
	On() string             // the interface
	AtHook(xdp bool) Object // the same object, with the hook noted
}

// AllRoles returns the roles of an interface, that of translators among them.
func (p IngressEntry) AllRoles() Roles { return p.Roles.With(RoleTranslated, p.Translators != 0) }

// Translator is one [nat64.NAME] as the datapath knows it.
type Translator struct {
	ID        int // 0..63
	Name      string
	Device    string
	MAC       [6]byte      // of the device
	Prefix    netip.Prefix // RFC 6052; not valid if there is none
	LowestMTU int
	// SmallestMTU is that of its interfaces: packets up to it fit every way out.
	SmallestMTU int
	MaxMSS      int  // 0: not clamped
	UDPZero     bool // compute missing UDP checksums
	CopyTOS     bool
	Stateful    bool // it has a Binder
	Counts      bool // packets and bytes of each subscriber
}

func (t Translator) Key() string    { return fmt.Sprintf("translator %d", t.ID) }
func (t Translator) Domain() Domain { return Datapath }
func (t Translator) String() string {
	s := fmt.Sprintf("translator %d %s on %s", t.ID, t.Name, t.Device)
	if t.Prefix.IsValid() {
		s += " prefix " + t.Prefix.String()
	}
	if t.Stateful {
		s += " stateful"
	}
	if t.Counts {
		s += " counts"
	}
	return fmt.Sprintf("%s lowest-mtu %d smallest-mtu %d max-mss %d compute-udp %v copy-tos %v", s, t.LowestMTU, t.SmallestMTU, t.MaxMSS, t.UDPZero, t.CopyTOS)
}

// RuleKind is the kind of an address rule.
type RuleKind uint8

func (k RuleKind) String() string {
	names := [...]string{"none", "prefix", "node", "mapping", "mapping4", "refused", "pool"}
	return names[min(int(k), len(names)-1)]
}

// Rule translates the addresses of one prefix. The bits that follow From are
// what the two addresses share; From tells the direction by its family.
type Rule struct {
	From       netip.Prefix
	To         netip.Prefix
	Kind       RuleKind
	UOctet     bool // bits 64..71 of the IPv6 address are passed over (RFC 6052 2.2)
	Translator int
}

func (r Rule) Key() string    { return "rule " + r.From.String() }
func (r Rule) Domain() Domain { return Datapath }
func (r Rule) String() string {
	return fmt.Sprintf("rule %s -> %s %s translator %d", r.From, r.To, r.Kind, r.Translator)
}

// Proxy makes weft answer ARP or neighbour discovery on a device for a prefix.
type Proxy struct {
	Device string
	Prefix netip.Prefix
}

func (p Proxy) Key() string    { return fmt.Sprintf("proxy %s on %s", p.Prefix, p.Device) }
func (p Proxy) Domain() Domain { return Datapath }
func (p Proxy) String() string { return p.Key() }
