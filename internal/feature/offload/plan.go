package offload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns the desired objects of [offload]. It is pure. Offloaded flows are not
// objects: the service learns them.
func Plan(f *config.File, facts state.Facts) state.Part {
	c := From(f)
	if c == nil {
		return state.Part{Feature: "offload"}
	}
	p := &planner{f: f, facts: facts, c: c, devices: map[string]bool{}}
	for i, name := range c.Interfaces {
		p.offload(f.Need(fmt.Sprintf("offload.interfaces[%d]", i), name, state.RoleOffloaded))
	}
	p.noSwitch()
	if c.Refused {
		for _, rule := range facts.RefusalRules {
			p.problem("offload.early_drop", rule, "none needed: the ruleset drops the flows that the rule may match")
		}
	}
	if facts.Untracked && !c.Refused { // the table that traces refused packets looks at ct state
		p.problem("offload", string(WhyNoTracking)+": no flow is offloaded", trackingRemedy)
	}
	for _, rule := range facts.PacketRules {
		p.problem("offload", rule, "move it below the rule that accepts established connections")
	}
	objects := state.Desired{
		// else connections that are there before weft would end without a word
		state.Sysctl{Name: "net/netfilter/nf_conntrack_events", Value: "1"},
	}
	if devices := p.refused(); devices != "" {
		objects = append(objects, state.RefusalTrace{Devices: devices})
	}
	if c.Refused {
		p.watch()
	}
	return state.Part{Feature: "offload", Objects: append(objects, p.attachments...), Needs: p.needs, Problems: p.problems}
}

type planner struct {
	f           *config.File
	facts       state.Facts
	c           *Config
	needs       []state.Need
	devices     map[string]bool // those that are offloaded, and those below them
	attachments []state.Object
	problems    []state.Problem
}

func (p *planner) problem(path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: state.Warning, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

// offload plans one interface. A device that is not there is the host's problem.
func (p *planner) offload(n state.Need) {
	l, there := p.facts.Link(n.Device)
	p.devices[n.Device] = there
	switch {
	case !there:
	case l.Kind == "ppp":
		// a session's frames are taken on the interface below it
		n.Taken = state.TakenNowhere
		p.attachment(l.Name, "flow_session_egress")
	default:
		n.Taken, n.Egress, n.XDP, n.Unframed = state.TakenBelow, "flow_egress", state.Required, state.UnframedLeft
		p.below(n.Path, l)
	}
	p.needs = append(p.needs, n)
}

// below notes the devices below an interface, and tells why a conduit is not
// used where the file has the kind of its switch's tags.
func (p *planner) below(path string, l state.LinkFact) {
	for _, b := range p.facts.Arrivals(l) {
		p.devices[b.Device.Name] = true
		if _, _, why, _ := p.facts.Conduit(b); why != "" {
			p.problem(path, why+": its frames are handled at the port", "set dsa to the content of dsa/tagging of that device, or to \"none\"")
		}
	}
}

// refused returns the devices whose packets the kernel is to tell of if the
// ruleset refuses them.
func (p *planner) refused() string {
	if !p.c.Refused {
		return ""
	}
	var names []string
	for _, n := range p.needs {
		if p.devices[n.Device] && !slices.Contains(names, n.Device) {
			names = append(names, n.Device)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// watch has all other devices watched by which packets may leave: who talks to a
// refused sender by one of them gets its answers. What leaves by a bridge's port
// has left by the bridge.
func (p *planner) watch() {
	for _, l := range p.facts.Links {
		if master, there := p.facts.Link(l.Master); there && master.Kind == "bridge" || p.devices[l.Name] || l.Name == "lo" {
			continue
		}
		p.attachment(l.Name, "early_drop_egress")
	}
}

// noSwitch tells who asks for a switch's tags where none of the devices is a port.
func (p *planner) noSwitch() {
	port := func(l state.LinkFact) bool { return l.Kind == "dsa" }
	there := slices.Contains(slices.Collect(maps.Values(p.devices)), true)
	if p.c.DSA.format() != state.SwitchNone && there && !slices.ContainsFunc(p.facts.Links, port) {
		p.problem("offload.dsa", "no device is a switch port: packets are handled at the devices themselves", `remove dsa, or set dsa = "none"`)
	}
}

func (p *planner) attachment(device, program string) {
	p.attachments = append(p.attachments, state.Attachment{Device: device, Hook: state.HookEgress, Program: program, Build: p.facts.Builds[program]})
}
