package offload

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what [offload] wants to exist. It is pure. Which flows are
// offloaded is no plan: the service learns them.
func Plan(f *config.File, facts state.Facts) (state.Desired, []state.Problem) {
	c := From(f)
	if c == nil {
		return nil, nil
	}
	p := &planner{f: f, facts: facts, ports: map[string]state.Port{}}
	for i, name := range c.Interfaces {
		p.offload(fmt.Sprintf("offload.interfaces[%d]", i), f.Interface(name))
	}
	for _, rule := range facts.PacketRules {
		p.problem(state.Warning, "offload", rule, "put it behind the rule that accepts established connections")
	}
	desired := state.Desired{
		// else connections that are there before weft would end without a word
		state.Sysctl{Name: "net/netfilter/nf_conntrack_events", Value: "1"},
	}
	for _, device := range p.order {
		desired = append(desired, p.ports[device])
	}
	desired = append(desired, p.lowers...)
	return append(desired, p.attachments...), p.problems
}

type planner struct {
	f           *config.File
	facts       state.Facts
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
	p.port(state.Port{Device: l.Name, MAC: l.MAC, XDPOut: l.XDPTarget, Offloaded: true})
	if l.Kind == "ppp" {
		return // a session's frames are taken on the interface below it
	}
	if l.MAC == [6]byte{} {
		p.problem(state.Warning, path, fmt.Sprintf("%s is neither Ethernet nor PPPoE: what arrives there is left to the stack", l.Name), "take it out of the list")
		return
	}
	below := p.facts.Below(l)
	for _, b := range below {
		if b.Device.Name != l.Name {
			p.port(state.Port{Device: b.Device.Name, MAC: b.Device.MAC, XDPOut: b.Device.XDPTarget, BridgePort: b.Tags.Len() == 0})
			p.lowers = append(p.lowers, state.Lower{Device: b.Device.Name, Tags: b.Tags, Upper: l.Name})
		}
		p.attach(path, b.Device, l, i)
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
