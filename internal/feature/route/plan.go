package route

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what [route] wants to exist. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	c := From(f)
	if c == nil {
		return state.Part{Feature: "route"}
	}
	p := &planner{f: f, facts: facts, tables: KernelTables(f, facts), ports: map[string]state.Port{}}
	for i, name := range c.Interfaces {
		p.route(fmt.Sprintf("route.interfaces[%d]", i), f.Interface(name))
	}
	desired := state.Desired{TablesOf(f)}
	for _, device := range p.order {
		desired = append(desired, p.ports[device])
	}
	desired = append(desired, p.lowers...)
	return state.Part{Feature: "route", Objects: append(desired, p.attachments...), Problems: p.problems}
}

// TablesOf gives the route tables that [route] wants; none without it.
func TablesOf(f *config.File) state.RouteTables {
	c := From(f)
	if c == nil {
		return state.RouteTables{}
	}
	return state.RouteTables{Words4: c.words4(), Words6: c.words6()}
}

// KernelTables gives the kernel's tables that interfaces of [route] are looked
// up in, by number in the datapath: the main one, then those of VRFs.
func KernelTables(f *config.File, facts state.Facts) []uint32 {
	c := From(f)
	if c == nil {
		return nil
	}
	var vrfs []uint32
	for _, name := range c.Interfaces {
		l, _ := facts.Link(f.Interface(name).Device)
		if t := vrfTable(facts, l); t != 0 && !slices.Contains(vrfs, t) {
			vrfs = append(vrfs, t)
		}
	}
	slices.Sort(vrfs)
	return append([]uint32{state.TableMain}, vrfs[:min(len(vrfs), state.RouteTablesMax-1)]...)
}

// vrfTable is the table of the VRF that a device belongs to, 0 if it is in none.
func vrfTable(facts state.Facts, l state.LinkFact) uint32 {
	master, _ := facts.Link(l.Master)
	if l.Master == "" || master.Kind != "vrf" {
		return 0
	}
	return master.VRFTable
}

type planner struct {
	f           *config.File
	facts       state.Facts
	tables      []uint32
	ports       map[string]state.Port
	order       []string // of ports
	lowers      []state.Object
	attachments []state.Object
	problems    []state.Problem
}

func (p *planner) problem(severity state.Severity, path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: severity, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

// route plans one interface. A device that is not there is the host's problem.
func (p *planner) route(path string, i *config.Interface) {
	l, there := p.facts.Link(i.Device)
	switch {
	case !there:
		return
	case l.MAC == [6]byte{}:
		p.problem(state.Warning, path, fmt.Sprintf("%s is no Ethernet device; what arrives there is left to the kernel", l.Name), "take it out of the list")
		return
	}
	port := state.Port{Device: l.Name, MAC: l.MAC, Roles: state.RoleRouted.With(state.RoleXDPOut, l.XDPTarget)}
	if t := vrfTable(p.facts, l); t != 0 {
		port.Table = max(0, slices.Index(p.tables, t))
	}
	p.port(port)
	switch {
	case l.Kind == "vlan" && p.vlan(l, i):
	case l.Kind == "bridge" && !l.Filtering && p.bridge(l, i):
	default:
		p.attach(path, l, i)
	}
}

// port adds to what is known of a device.
func (p *planner) port(port state.Port) {
	old, known := p.ports[port.Device]
	if !known {
		p.order = append(p.order, port.Device)
		p.ports[port.Device] = port
		return
	}
	p.ports[port.Device] = old.Join(port)
}

// vlan has frames taken on the device below, where they still have their tags;
// false if there is none to be seen.
func (p *planner) vlan(l state.LinkFact, i *config.Interface) bool {
	var tags state.VLANTags
	lower := l
	for lower.Kind == "vlan" && tags.Len() < len(tags) {
		tags = state.VLANTags{lower.Tag, tags[0]}
		below, there := p.facts.Link(lower.Lower)
		if !there || lower.Lower == "" {
			return false
		}
		lower = below
	}
	if lower.Kind == "vlan" || lower.Kind == "bridge" || lower.MAC == [6]byte{} {
		return false
	}
	p.below(lower, tags, l, i)
	return true
}

// bridge has frames for the bridge taken on its ports; false if it has none.
func (p *planner) bridge(l state.LinkFact, i *config.Interface) bool {
	some := false
	for _, member := range p.facts.Links {
		if member.Master == l.Name {
			p.below(member, state.VLANTags{}, l, i)
			some = true
		}
	}
	return some
}

func (p *planner) below(lower state.LinkFact, tags state.VLANTags, upper state.LinkFact, i *config.Interface) {
	p.port(state.Port{Device: lower.Name, MAC: lower.MAC, Roles: state.Roles(0).With(state.RoleXDPOut, lower.XDPTarget).With(state.RoleBridgePort, tags.Len() == 0)})
	p.lowers = append(p.lowers, state.Lower{Device: lower.Name, Tags: tags, Upper: upper.Name})
	p.attach("", lower, i)
}

// attach puts the programs on a device. TC is always there: it takes what XDP
// leaves.
func (p *planner) attach(path string, l state.LinkFact, i *config.Interface) {
	p.attachment(l.Name, state.HookIngress, "ingress_tc")
	switch {
	case i.Hook == config.HookXDP && !l.XDP && path != "":
		p.problem(state.Error, path, fmt.Sprintf("the driver of %s has no XDP that can redirect", l.Name), fmt.Sprintf(`write hook = "tc" or "auto" for the device %s`, l.Name))
	case l.XDP && (i.Hook == config.HookXDP || i.Hook == config.HookAuto && l.Kind == ""):
		p.attachment(l.Name, state.HookXDP, "ingress_xdp")
	}
}

func (p *planner) attachment(device string, hook state.Hook, program string) {
	a := state.Attachment{Device: device, Hook: hook, Program: program, Build: p.facts.Builds[program]}
	if !slices.Contains(p.attachments, state.Object(a)) {
		p.attachments = append(p.attachments, a)
	}
}
