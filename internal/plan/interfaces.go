package plan

import (
	"fmt"
	"slices"

	"weft/internal/state"
)

// Interfaces is the Feature of the part that the planner makes out of needs.
const Interfaces = "interfaces"

// planner converts needs to ingress entries, sub-interface entries and attachments.
type planner struct {
	facts    state.Facts
	ports    map[string]bool // of weft's bridges
	entries  []state.IngressEntry
	lowers   []state.Lower
	sites    []*site
	together []string           // devices of interfaces whose packets one hook must see completely
	taken    map[string][]*site // where those packets are taken
	refused  map[string]bool    // devices whose lack of XDP has been reported for a feature
	problems []state.Problem
}

// site is a device at whose hooks packets are processed.
type site struct {
	device state.LinkFact
	egress []string
	xdp    bool
}

// interfaces makes a part of the needs of all parts.
func interfaces(parts []state.Part, facts state.Facts) (*planner, state.Part) {
	p := &planner{facts: facts, ports: bridgePorts(parts), taken: map[string][]*site{}}
	for _, part := range parts {
		p.refused = map[string]bool{}
		for _, n := range part.Needs {
			p.need(n)
		}
	}
	p.allOrNone()
	part := state.Part{Feature: Interfaces, Problems: p.problems}
	for _, e := range p.entries {
		part.Objects = append(part.Objects, e)
	}
	for _, l := range p.lowers {
		part.Objects = append(part.Objects, l)
	}
	for _, s := range p.sites {
		part.Objects = append(part.Objects, s.programs(facts.Builds)...)
	}
	return p, part
}

// bridgePorts returns the ports of weft's bridges with guards of their own.
func bridgePorts(parts []state.Part) map[string]bool {
	ports := map[string]bool{}
	for _, part := range parts {
		for _, o := range part.Objects {
			if g, ok := o.(state.BridgeGuard); ok {
				ports[g.Device] = true
			}
		}
	}
	return ports
}

// need plans one need. A missing device is reported as a problem of the host.
func (p *planner) need(n state.Need) {
	l, there := p.facts.Link(n.Device)
	switch {
	case there:
	case n.MAC != [6]byte{}:
		l = state.LinkFact{Name: n.Device, MAC: n.MAC}
	default:
		return
	}
	if l.Encap != "" && n.Taken != state.TakenNowhere {
		n = p.unframed(n, l)
		if n.Unframed == state.UnframedRefused {
			return
		}
	}
	p.entry(l, n.Roles, n.Translators, n.Table)
	var sites []*site
	switch n.Taken {
	case state.TakenHere:
		sites = append(sites, p.site(l))
	case state.TakenBelow:
		for _, b := range p.facts.Arrivals(l) {
			p.below(b, l)
			sites = append(sites, p.site(b.Device))
		}
	}
	for _, s := range sites {
		s.xdp = s.xdp || n.XDP != state.Indifferent && p.mayXDP(s.device, n.Hook)
		if n.Egress != "" && !slices.Contains(s.egress, n.Egress) {
			s.egress = append(s.egress, n.Egress)
		}
	}
	if _, known := p.taken[l.Name]; n.Together && !known {
		p.taken[l.Name] = sites
		p.together = append(p.together, l.Name)
	}
	p.impossible(n, l, sites)
}

// unframed reduces a need to what a device without Ethernet frames can fulfil, and
// reports the rest. Only this function decides that.
func (p *planner) unframed(n state.Need, l state.LinkFact) state.Need {
	problem := state.Problem{Pos: n.Pos, Path: n.Path, What: fmt.Sprintf("%s has no Ethernet frames (link/%s)", l.Name, l.Encap), Remedy: "take it out of the list"}
	switch n.Unframed {
	case state.UnframedRefused:
		problem.What += ", and the packets that arrive there cannot be taken"
		p.problems = append(p.problems, problem)
	case state.UnframedLeft:
		problem.Severity = state.Warning
		problem.What += ": what arrives there is left to the kernel"
		p.problems = append(p.problems, problem)
	}
	n.Taken, n.Egress, n.XDP, n.Together = state.TakenNowhere, "", state.Indifferent, false
	return n
}

// entry adds to the ingress entry of a device.
func (p *planner) entry(l state.LinkFact, roles state.Roles, translators uint64, table int) {
	i := slices.IndexFunc(p.entries, func(e state.IngressEntry) bool { return e.Device == l.Name })
	if i < 0 {
		i = len(p.entries)
		// XDP on a bridge's port would see frames before the bridge's guards there
		// do, and sent there by XDP they would get past them; a tun device would take
		// their link headers for packets
		out := state.Roles(0).With(state.RoleXDPOut, l.XDPTarget && l.Encap == "" && !p.ports[l.Name])
		p.entries = append(p.entries, state.IngressEntry{Device: l.Name, MAC: l.MAC, Roles: out})
	}
	e := &p.entries[i]
	e.Roles |= roles
	e.Translators |= translators
	e.Table = max(e.Table, table)
}

// below makes frames of an interface be processed on a device below it.
func (p *planner) below(b state.Beneath, upper state.LinkFact) {
	if b.Device.Name == upper.Name {
		return
	}
	roles := state.Roles(0).With(state.RoleBridgePort, b.Tags.Len() == 0).With(state.RoleConduit, b.Tags[0].Proto == state.SwitchTag)
	p.entry(b.Device, roles, 0, 0)
	lower := state.Lower{Device: b.Device.Name, Tags: b.Tags, Upper: upper.Name}
	if !slices.Contains(p.lowers, lower) {
		p.lowers = append(p.lowers, lower)
	}
}

func (p *planner) site(l state.LinkFact) *site {
	for _, s := range p.sites {
		if s.device.Name == l.Name {
			return s
		}
	}
	s := &site{device: l}
	p.sites = append(p.sites, s)
	return s
}

// mayXDP reports whether XDP can run on a device, and the hook of an interface above
// it permits it: by default, weft attaches it to physical devices only.
func (p *planner) mayXDP(l state.LinkFact, hook state.HookChoice) bool {
	physical := l.Kind == "" && l.Name != "lo"
	return l.XDP && !p.ports[l.Name] && (hook == state.ChooseXDP || hook == state.ChooseAuto && physical)
}

// impossible reports an interface with hook = "xdp" whose driver has no XDP.
func (p *planner) impossible(n state.Need, l state.LinkFact, sites []*site) {
	if n.XDP != state.Required || n.Hook != state.ChooseXDP || p.refused[l.Name] {
		return
	}
	var lacking []string
	for _, s := range sites {
		if !s.device.XDP {
			lacking = append(lacking, s.device.Name)
		}
	}
	if len(lacking) == 0 || len(lacking) < len(sites) && !n.Together {
		return
	}
	p.refused[l.Name] = true
	p.problems = append(p.problems, state.Problem{
		Pos: n.Pos, Path: n.Path, What: fmt.Sprintf("the driver of %s has no XDP that can redirect", lacking[0]),
		Remedy: fmt.Sprintf(`write hook = "tc" or "auto" for the device %s`, l.Name),
	})
}

// allOrNone removes XDP where it would see only some of the packets of an interface
// whose packets one hook must see completely. That may remove it for other
// interfaces too.
func (p *planner) allOrNone() {
	for changed := true; changed; {
		changed = false
		for _, device := range p.together {
			if p.inXDP(device) {
				continue
			}
			for _, s := range p.taken[device] {
				changed = changed || s.xdp
				s.xdp = false
			}
		}
	}
}

// inXDP reports whether XDP sees all packets of one of those interfaces.
func (p *planner) inXDP(device string) bool {
	sites := p.taken[device]
	return len(sites) > 0 && !slices.ContainsFunc(sites, func(s *site) bool { return !s.xdp })
}

// programs are those on a device. TC is always attached: it processes the packets
// that XDP passes. An XDP program does not see VLAN tags that the device stores
// beside the frames, so they are kept in the frames first.
func (s *site) programs(builds map[string]string) state.Desired {
	on := func(hook state.Hook, program string) state.Object {
		return state.Attachment{Device: s.device.Name, Hook: hook, Program: program, Build: builds[program]}
	}
	list := state.Desired{on(state.HookIngress, "ingress_tc")}
	for _, program := range s.egress {
		list = append(list, on(state.HookEgress, program))
	}
	if s.xdp {
		list = append(list, state.TagsInFrames{Device: s.device.Name}, on(state.HookXDP, "ingress_xdp"))
	}
	return list
}
