package bridge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns what the [bridge.NAME] sections want to exist. It is pure.
//
// A bridge is made first: only then does its kernel say what it can do. The
// programs are on a port before it joins.
func Plan(f *config.File, facts state.Facts) state.Part {
	p := &planner{f: f, facts: facts}
	for _, name := range f.Names("bridge") {
		p.bridge(name, From(f, name))
	}
	return state.Part{Feature: "bridge", Objects: p.desired, Problems: p.problems}
}

type planner struct {
	f        *config.File
	facts    state.Facts
	desired  state.Desired
	problems []state.Problem
}

func (p *planner) want(objects ...state.Object) { p.desired = append(p.desired, objects...) }

func (p *planner) warn(path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: state.Warning, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

// fits reports whether a device of the host can be a port; one of another bridge is
// taken from there until weft unload.
func (p *planner) fits(c *Config, q port) bool {
	l, _ := p.facts.Link(q.Device)
	path := q.Path + ".interface"
	if l.Encap != "" {
		p.problems = append(p.problems, state.Problem{
			Pos: p.f.Position(path), Path: path, What: fmt.Sprintf("%s has no Ethernet frames (link/%s): no bridge takes it as a port", l.Name, l.Encap),
			Remedy: "take it out of the ports, or bridge a pseudowire that goes through it",
		})
		return false
	}
	if master, ok := p.facts.Link(l.Master); ok && master.Foreign && master.Name != c.Device {
		p.warn(path, fmt.Sprintf("%s is a port of %s, which weft has not made: it leaves that while weft has it as a port", l.Name, master.Name), "take it out there, or out of the ports here")
	}
	return true
}

func (p *planner) bridge(name string, c *Config) {
	path := "bridge." + name
	l, made := p.facts.Link(c.Device)
	// With its own VLANs the kernel answers for neighbours only where each has a
	// device on the bridge, which would be a way to the router.
	b := state.Bridge{Name: c.Device, Owner: path, VLANs: l.VLANAware && !c.NeighSuppress, Snooping: c.Snooping}
	b.MAC, _ = state.ParseMAC(c.MAC)
	if l.LimitsMAC {
		b.MaxLearned = uint32(c.MaxMACs)
	}
	p.want(b)
	var ports []port
	for i := range c.Ports {
		q := portOf(p.f, name, i)
		if q.Kind != "" {
			p.want(state.GuestDevice{
				Name: q.Device, Kind: string(q.Kind), Peer: q.Peer, User: q.Owner, Group: q.Group, MultiQueue: q.MultiQueue,
				Owner: fmt.Sprintf("%s.%s", path, q.Interface),
			})
		} else if _, there := p.facts.Link(q.Device); !there {
			if !slices.Contains(p.facts.Made, q.Device) {
				p.warn(q.Path+".interface", fmt.Sprintf("this host has no device %q yet; it joins the bridge when it comes", q.Device), "make the device, or let weft make it with kind")
			}
			continue
		} else if !p.fits(c, q) {
			continue
		}
		ports = append(ports, q)
	}
	onThisHost := here(p.facts, c, ports)
	if onThisHost {
		p.hostLeaks(path, c, ports)
	}
	tags := !b.VLANs && several(c, ports)
	if made && !l.VLANAware || !made && p.facts.NoVLANs && onThisHost {
		p.withoutVLANs(path, tags)
	}
	if !made {
		return // what its kernel can do is not known
	}
	p.host(c, path, b, ports, tags)
	for _, q := range ports {
		p.port(c, b, q, tags)
	}
	p.want(state.Link{Name: c.Device})
}

// withoutVLANs says who does what the kernel cannot.
func (p *planner) withoutVLANs(path string, tags bool) {
	what := "the programs on its ports keep the router out"
	if tags {
		what = "the programs on its ports tell the VLANs apart instead"
	}
	p.warn(path, "this kernel's bridge has no VLAN filtering; "+what, "nothing has to be done; a kernel with CONFIG_BRIDGE_VLAN_FILTERING does it by itself")
}

// several reports whether frames of more than one VLAN meet in the bridge.
func several(c *Config, ports []port) bool {
	seen := map[int]bool{}
	for _, q := range ports {
		for _, v := range q.vlans() {
			seen[v] = true
		}
		if len(q.VLANs) > 0 {
			return true
		}
	}
	return len(seen) > 1 || len(c.HostVLANs) > 0
}

func (p *planner) program(device string, hook state.Hook, name string) {
	p.want(state.Attachment{Device: device, Hook: hook, Program: name, Build: p.facts.Builds[name]})
}

// host plans the router's own place in the bridge, or its absence.
func (p *planner) host(c *Config, path string, b state.Bridge, ports []port, tags bool) {
	g := state.BridgeGuard{Device: c.Device, Bridge: c.Device, Role: state.BridgeHost, Member: c.Host, Tags: tags}
	if c.Host {
		g.PVID, g.VLANs = uint16(c.hostVLAN(p.f, path)), numbers(c.HostVLANs)
	} else if answersIPv6(ports) {
		// The kernel keeps no IPv6 neighbours where IPv6 is off, and answers by
		// them. The router has no address here, and says nothing all the same.
		p.want(
			state.Sysctl{Name: "net/ipv6/conf/" + c.Device + "/addr_gen_mode", Value: "1"},
			state.Sysctl{Name: "net/ipv6/conf/" + c.Device + "/accept_ra", Value: "0"},
			state.Sysctl{Name: "net/ipv6/conf/" + c.Device + "/disable_ipv6", Value: "0"},
		)
	} else {
		p.want(state.Sysctl{Name: "net/ipv6/conf/" + c.Device + "/disable_ipv6", Value: "1"})
	}
	p.want(g)
	if l, _ := p.facts.Link(c.Device); c.Host && l.MAC != ([6]byte{}) {
		// no other station can claim the router's address, also while the router is silent
		p.want(state.Station{Bridge: c.Device, Device: c.Device, MAC: l.MAC})
	}
	p.program(c.Device, state.HookIngress, "bridge_host_in")
	p.program(c.Device, state.HookEgress, "bridge_host_out")
	if c.Host && b.VLANs {
		p.want(state.BridgeVLAN{Device: c.Device, VLAN: g.PVID, Untagged: true, Self: true})
		for _, v := range c.HostVLANs {
			p.want(state.BridgeVLAN{Device: c.Device, VLAN: uint16(v), Self: true})
		}
	}
}

func answersIPv6(ports []port) bool {
	for _, q := range ports {
		for _, a := range q.Addresses {
			if a.Is6() {
				return true
			}
		}
	}
	return false
}

func (p *planner) port(c *Config, b state.Bridge, q port, tags bool) {
	guest := q.Role == Guest
	// the kernel answers questions that come in elsewhere, and sends them to no such port
	answered := c.NeighSuppress && (guest || len(q.Addresses) > 0)
	p.want(state.Sysctl{Name: "net/ipv6/conf/" + q.Device + "/disable_ipv6", Value: "1"})
	p.want(state.BridgeGuard{
		Device: q.Device, Bridge: c.Device, Role: q.role(), Member: true, Tags: tags,
		Isolated: q.Isolated, Locked: q.Locked, NoDHCP: !q.DHCPServer, NoRA: !q.Router, Suppress: c.NeighSuppress && !answered,
		PVID: uint16(q.PVID), VLANs: numbers(q.VLANs), MaxMACs: q.MaxMACs,
		Broadcast: q.Broadcast, Multicast: q.Multicast, Unknown: q.Unknown,
	})
	for _, mac := range q.MACs {
		p.want(state.Station{Bridge: c.Device, Device: q.Device, MAC: mac})
	}
	p.program(q.Device, state.HookIngress, "bridge_port_in")
	p.program(q.Device, state.HookEgress, "bridge_port_out")
	if !q.Offloads {
		p.want(state.NoOffloads{Device: q.Device})
		if q.Peer != "" {
			p.want(state.NoOffloads{Device: q.Peer})
		}
	}
	p.want(state.BridgePort{Device: q.Device, Bridge: c.Device, Isolated: q.Isolated, Locked: q.Locked, Suppress: answered, Guest: guest})
	if b.VLANs {
		if q.PVID != 0 {
			p.want(state.BridgeVLAN{Device: q.Device, VLAN: uint16(q.PVID), Untagged: true})
		}
		for _, v := range q.VLANs {
			p.want(state.BridgeVLAN{Device: q.Device, VLAN: uint16(v)})
		}
	}
	for _, mac := range q.MACs {
		if !b.VLANs {
			p.want(state.BridgeAddress{Device: q.Device, MAC: mac})
			continue
		}
		for _, v := range q.vlans() {
			p.want(state.BridgeAddress{Device: q.Device, MAC: mac, VLAN: uint16(v)})
		}
	}
	for _, a := range q.Addresses {
		if len(q.MACs) == 1 {
			p.want(state.Neighbour{Device: c.Device, Addr: a, MAC: q.MACs[0]})
		}
	}
	p.want(state.Link{Name: q.Device})
}

// numbers writes VLANs as state.BridgeGuard holds them: sorted, with commas.
func numbers(list []int) string {
	sorted := slices.Sorted(slices.Values(list))
	words := make([]string, len(sorted))
	for i, n := range sorted {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
