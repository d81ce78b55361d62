package lab

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Step is one step of bringing a lab up. String describes it in one line.
type Step interface{ String() string }

// MakeSpace makes a node's network namespace, with lo up.
type MakeSpace struct{ Node, Space string }

// MakeSwitch makes the bridge of a switch.
type MakeSwitch struct{ Node string }

// MakeCable makes a veth pair with one end in each of two nodes.
type MakeCable struct {
	Ends [2]Plug
	MTU  int
	Rate Rate
}

// Plug is one end of a cable, up and with its addresses.
type Plug struct {
	Node, Device string
	MAC          net.HardwareAddr
	Addresses    []netip.Prefix
	Switch       bool // it is a port of the node's switch
}

// MakeTap connects a tap device, for a guest's network card, to a cable's end
// by a bridge in the node's namespace.
type MakeTap struct {
	Node, Device, Bridge, Tap string
	MTU                       int
}

// StartGuest boots a guest in its node's namespace.
type StartGuest struct {
	Node Node
	NICs []NIC
}

// GuestStage is what a guest does until it is ready. It is reported, and no part of a
// plan.
type GuestStage struct{ Node, Stage string }

// NIC is a guest's network card.
type NIC struct {
	Plug
	Tap string
	MTU int
}

// StartImpairment boots the guest through which an impaired link passes.
type StartImpairment struct {
	Node string
	Taps [2]string
	Link Link
}

// SetSysctls writes sysctls of a node's namespace, in order.
type SetSysctls struct {
	Node   string
	Values [][2]string // name, value
}

// AddRoutes adds routes to a node.
type AddRoutes struct {
	Node   string
	Routes []Route
}

// WriteFile puts a file into a node's directory.
type WriteFile struct{ Node, Name, Text string }

// StartWeft starts the router in a node and waits until it says READY=1.
type StartWeft struct{ Node string }

// StartProcess starts a process, or runs it to its end.
type StartProcess struct {
	Node    string
	Process Process
}

// AwaitLinks waits until the kernel has noticed that a node's cables are plugged in,
// which takes up to a second (operational state, RFC 2863 section 3.1.14): before
// that its IPv6 addresses do not answer.
type AwaitLinks struct {
	Node    string
	Devices []string
}

// SpaceName is the name of a node's network namespace: the mark by which a lab's
// parts are found again.
func SpaceName(lab, node string) string { return spacePrefix + lab + "-" + node }

const spacePrefix = "weft-"

// SplitSpaceName is the reverse of SpaceName.
func SplitSpaceName(name string) (lab, node string, ok bool) {
	rest, ok := strings.CutPrefix(name, spacePrefix)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i <= 0 || i == len(rest)-1 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// Plan returns the steps that bring a valid scenario up under a lab's name. It has
// no effects and depends on nothing else.
func Plan(s *Scenario, lab string) []Step {
	var p planner
	for _, n := range s.Nodes {
		p.add(MakeSpace{n.Name, SpaceName(lab, n.Name)})
		p.guests = append(p.guests, guestPlan{node: n})
		if n.Switch {
			p.add(MakeSwitch{n.Name})
		}
	}
	for i, l := range s.Links {
		p.link(lab, i, l)
	}
	for _, n := range s.Nodes {
		if devices := s.devicesOf(n.Name); len(devices) > 0 && !n.Switch {
			p.add(AwaitLinks{n.Name, devices})
		}
	}
	for i, n := range s.Nodes {
		if n.Kind.IsGuest() {
			p.first(n)
			p.add(StartGuest{n, p.guests[i].nics})
			continue
		}
		p.node(n)
	}
	for _, n := range s.Nodes {
		for _, proc := range n.Processes {
			if !proc.First {
				p.add(StartProcess{n.Name, proc})
			}
		}
	}
	return p.steps
}

// devicesOf returns the devices of a node in the order of the links.
func (s *Scenario) devicesOf(node string) []string {
	var found []string
	for _, l := range s.Links {
		for _, e := range l.Ends {
			if e.Node == node {
				found = append(found, e.Device)
			}
		}
	}
	return found
}

type planner struct {
	steps  []Step
	guests []guestPlan // one a node, in the scenario's order
}

type guestPlan struct {
	node Node
	nics []NIC
}

func (p *planner) add(s Step) { p.steps = append(p.steps, s) }

func (p *planner) link(lab string, index int, l Link) {
	mtu := l.MTU
	if mtu == 0 {
		mtu = 1500
	}
	plugs := [2]Plug{plug(index, 0, l.Ends[0]), plug(index, 1, l.Ends[1])}
	if !l.Impaired() {
		p.cable(plugs, mtu, l.Rate)
		return
	}
	// The middle of an impaired link is a node of its own, two cables away.
	middle := fmt.Sprintf("link%d", index)
	p.add(MakeSpace{middle, SpaceName(lab, middle)})
	var taps [2]string
	for side := range 2 {
		inner := Plug{Node: middle, Device: fmt.Sprintf("side%d", side), MAC: mac(index, 2+side)}
		p.cable([2]Plug{plugs[side], inner}, mtu, 0)
		taps[side] = p.tap(inner, mtu)
	}
	p.add(StartImpairment{middle, taps, l})
}

func (p *planner) cable(plugs [2]Plug, mtu int, rate Rate) {
	cable := MakeCable{plugs, mtu, rate}
	// A guest has its addresses and its MAC inside; outside is only a bridge.
	for i := range plugs {
		cable.Ends[i].Switch = p.isSwitch(plugs[i].Node)
		if p.guest(plugs[i].Node) != nil {
			cable.Ends[i].Addresses, cable.Ends[i].MAC = nil, nil
		}
	}
	p.add(cable)
	for _, plug := range plugs {
		if g := p.guest(plug.Node); g != nil {
			g.nics = append(g.nics, NIC{plug, p.tap(plug, mtu), mtu})
		}
	}
}

// tap plans a tap for a plug and gives its name, numbered in its node.
func (p *planner) tap(plug Plug, mtu int) string {
	number := 0
	for _, s := range p.steps {
		if t, ok := s.(MakeTap); ok && t.Node == plug.Node {
			number++
		}
	}
	t := MakeTap{plug.Node, plug.Device, fmt.Sprintf("guest-br%d", number), fmt.Sprintf("guest-tap%d", number), mtu}
	p.add(t)
	return t.Tap
}

func (p *planner) guest(node string) *guestPlan {
	i := slices.IndexFunc(p.guests, func(g guestPlan) bool { return g.node.Name == node })
	if i < 0 || !p.guests[i].node.Kind.IsGuest() {
		return nil
	}
	return &p.guests[i]
}

func (p *planner) isSwitch(node string) bool {
	return slices.ContainsFunc(p.guests, func(g guestPlan) bool { return g.node.Name == node && g.node.Switch })
}

// node plans the steps after the cables. weft adds its interfaces' addresses, so
// routes that depend on them wait for it.
func (p *planner) node(n Node) {
	var values [][2]string
	if n.Forward {
		values = append(values, [2]string{"net.ipv4.ip_forward", "1"}, [2]string{"net.ipv6.conf.all.forwarding", "1"})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Sysctls)) {
		values = append(values, [2]string{name, n.Sysctls[name]})
	}
	if len(values) > 0 {
		p.add(SetSysctls{n.Name, values})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Files)) {
		p.add(WriteFile{n.Name, name, n.Files[name]})
	}
	p.first(n)
	if n.Weft != "" {
		p.add(WriteFile{n.Name, "weft.toml", n.Weft})
		p.add(StartWeft{n.Name})
	}
	routes := slices.Clone(n.Routes)
	for _, g := range n.Gateway {
		routes = append(routes, Route{To: netip.PrefixFrom(anyOf(g), 0), Via: g})
	}
	if len(routes) > 0 {
		p.add(AddRoutes{n.Name, routes})
	}
}

// first plans what runs before weft, or before a guest.
func (p *planner) first(n Node) {
	for _, proc := range n.Processes {
		if proc.First {
			p.add(StartProcess{n.Name, proc})
		}
	}
}

func anyOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func plug(link, side int, e End) Plug {
	p := Plug{Node: e.Node, Device: e.Device, MAC: mac(link, side), Addresses: e.Addresses}
	if e.MAC != "" {
		p.MAC, _ = net.ParseMAC(e.MAC) // validated
	}
	return p
}

// mac makes a readable locally administered address: link 1 has 02:00:00:00:01:0a at
// its first end and 02:00:00:00:01:0b at its second.
func mac(link, side int) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, byte((link + 1) >> 8), byte(link + 1), byte(10 + side)}
}
