package offload

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what [offload] wants to exist. It is pure. Which flows are
// offloaded is no plan: the service learns them.
func Plan(f *config.File, facts state.Facts) state.Part {
	c := From(f)
	if c == nil {
		return state.Part{Feature: "offload"}
	}
	p := &planner{f: f, facts: facts, dsa: c.DSA.format(), ports: map[string]state.Port{}}
	for i, name := range c.Interfaces {
		p.offload(fmt.Sprintf("offload.interfaces[%d]", i), f.Interface(name))
	}
	p.sessions(c)
	p.noSwitch()
	if c.Refused {
		for _, rule := range facts.RefusalRules {
			p.problem(state.Warning, "offload.refused", rule, "what it may apply to is left to the ruleset")
		}
	}
	for _, rule := range facts.PacketRules {
		p.problem(state.Warning, "offload", rule, "put it behind the rule that accepts established connections")
	}
	desired := state.Desired{
		// else connections that are there before weft would end without a word
		state.Sysctl{Name: "net/netfilter/nf_conntrack_events", Value: "1"},
	}
	if devices := p.refused(c); devices != "" {
		desired = append(desired, state.RefusalTrace{Devices: devices})
	}
	if c.Refused {
		p.watch()
	}
	for _, device := range p.order {
		desired = append(desired, p.ports[device])
	}
	desired = append(desired, p.lowers...)
	return state.Part{Feature: "offload", Objects: append(desired, p.attachments...), Problems: p.problems}
}

type planner struct {
	f           *config.File
	facts       state.Facts
	dsa         state.SwitchFormat
	ports       map[string]state.Port
	order       []string
	lowers      []state.Object
	attachments []state.Object
	problems    []state.Problem
}

func (p *planner) problem(severity state.Severity, path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: severity, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

// offload plans one interface. A device that is not there is the host's problem.
func (p *planner) offload(path string, i *config.Interface) {
	l, there := p.facts.Link(i.Device)
	if !there {
		return
	}
	p.port(state.Port{Device: l.Name, MAC: l.MAC, Roles: state.RoleOffloaded.With(state.RoleXDPOut, l.XDPTarget)})
	if l.Kind == "ppp" {
		// a session's frames are taken on the interface below it
		p.attachment(l.Name, state.HookEgress, "flow_session_egress")
		return
	}
	if l.MAC == [6]byte{} {
		p.problem(state.Warning, path, fmt.Sprintf("%s is neither Ethernet nor PPPoE: what arrives there is left to the stack", l.Name), "take it out of the list")
		return
	}
	below := p.facts.Below(l)
	for _, b := range below {
		if conduit, tags, is := p.conduit(path, b); is {
			p.port(state.Port{Device: conduit.Name, MAC: conduit.MAC, Roles: state.RoleConduit.With(state.RoleXDPOut, conduit.XDPTarget)})
			p.lowers = append(p.lowers, state.Lower{Device: conduit.Name, Tags: tags, Upper: l.Name})
			p.attach(path, conduit, l, i)
			continue
		}
		if b.Device.Name != l.Name {
			p.port(state.Port{Device: b.Device.Name, MAC: b.Device.MAC, Roles: state.Roles(0).With(state.RoleXDPOut, b.Device.XDPTarget).With(state.RoleBridgePort, b.Tags.Len() == 0)})
			p.lowers = append(p.lowers, state.Lower{Device: b.Device.Name, Tags: b.Tags, Upper: l.Name})
		}
		p.attach(path, b.Device, l, i)
	}
}

// refused gives the devices whose packets the kernel is to tell of if the
// ruleset refuses them.
func (p *planner) refused(c *Config) string {
	if !c.Refused {
		return ""
	}
	var names []string
	for _, name := range c.Interfaces {
		if l, there := p.facts.Link(p.f.Interface(name).Device); there && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// watch has all other devices watched by which packets may leave: who talks to a
// refused sender by one of them gets its answers. What leaves by a bridge's port
// has left by the bridge.
func (p *planner) watch() {
	watched := map[string]bool{"lo": true}
	for _, device := range p.order { // those that flow_egress is on, and what stands on them
		watched[device] = true
	}
	for _, l := range p.facts.Links {
		if master, there := p.facts.Link(l.Master); there && master.Kind == "bridge" || watched[l.Name] {
			continue
		}
		p.attachment(l.Name, state.HookEgress, "refusal_egress")
	}
}

// conduit gives the device in front of a switch by one of whose ports frames
// come, and the tags that they have there. false: they come by no such port, or
// are to be taken at the port.
func (p *planner) conduit(path string, b state.Beneath) (state.LinkFact, state.VLANTags, bool) {
	if b.Device.Kind != "dsa" || p.dsa == state.SwitchNone || b.Tags.Len() == len(b.Tags) {
		return state.LinkFact{}, state.VLANTags{}, false
	}
	below, there := p.facts.Link(b.Device.Lower)
	what := ""
	switch {
	case !there || b.Device.Port == 0:
		what = fmt.Sprintf("the kernel does not tell behind which device and port of a switch %s is", b.Device.Name)
	case below.Tagging != p.dsa.String():
		what = fmt.Sprintf("the switch behind %s has tags of the kind %q, not %q", below.Name, below.Tagging, p.dsa)
	default:
		return below, state.VLANTags{{Proto: state.SwitchTag, ID: uint16(b.Device.Port - 1)}, b.Tags[0]}, true
	}
	p.problem(state.Warning, path, what+": its frames are taken at the port", "write what dsa/tagging of that device says, or dsa = \"none\"")
	return state.LinkFact{}, state.VLANTags{}, false
}

// noSwitch tells who asks for a switch's tags where none of the devices is a port.
func (p *planner) noSwitch() {
	port := func(l state.LinkFact) bool { return l.Kind == "dsa" }
	if p.dsa != state.SwitchNone && len(p.order) > 0 && !slices.ContainsFunc(p.facts.Links, port) {
		p.problem(state.Warning, "offload.dsa", "no device here is a port of a switch: packets are taken at the devices as they are", `take dsa out, or write dsa = "none"`)
	}
}

func (p *planner) port(port state.Port) {
	old, known := p.ports[port.Device]
	if !known {
		p.order = append(p.order, port.Device)
		p.ports[port.Device] = port
		return
	}
	p.ports[port.Device] = old.Join(port)
}

// attach puts the programs on a lowest device. TC is always there: it takes
// what XDP leaves, and sees what leaves.
func (p *planner) attach(path string, l, upper state.LinkFact, i *config.Interface) {
	p.attachment(l.Name, state.HookIngress, "ingress_tc")
	p.attachment(l.Name, state.HookEgress, "flow_egress")
	switch {
	case i.Hook == config.HookXDP && !l.XDP && l.Name == upper.Name:
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
