package guard

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what the sections [guard.NAME] want to exist. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	var p planner
	p.f, p.facts = f, facts
	for _, name := range f.Names("guard") {
		c := From(f, name)
		if c == nil {
			continue
		}
		for i, in := range c.Interfaces {
			p.guard(fmt.Sprintf("guard.%s.interfaces[%d]", name, i), c, f.Interface(in))
		}
	}
	return state.Part{Feature: "guard", Objects: slices.Concat(p.guards, p.ports, p.attachments), Problems: p.problems}
}

type planner struct {
	f           *config.File
	facts       state.Facts
	guards      state.Desired
	ports       state.Desired
	attachments state.Desired
	problems    []state.Problem
}

// guard plans one interface. A device that is not there is the host's problem.
func (p *planner) guard(path string, c *Config, i *config.Interface) {
	l, there := p.facts.Link(i.Device)
	switch {
	case !there:
		return
	case l.MAC == [6]byte{}:
		p.problem(state.Error, path, fmt.Sprintf("%s is no Ethernet device; frames that arrive there cannot be guarded", l.Name), "take it out of the list")
		return
	}
	below := p.facts.Below(l)
	xdp := i.Hook != config.HookTC
	for _, b := range below {
		xdp = xdp && b.Device.XDP && (i.Hook == config.HookXDP || b.Device.Kind == "")
	}
	if i.Hook == config.HookXDP && !xdp {
		p.problem(state.Error, path, fmt.Sprintf("the driver below %s has no XDP that can redirect", l.Name), fmt.Sprintf(`write hook = "tc" or "auto" for the device %s`, l.Name))
	}
	p.guards = append(p.guards, state.Guard{
		Device: l.Name, Bogons: c.Bogons, Reverse: c.ReversePath.state(), XDP: xdp, Rates: c.rates(),
	})
	p.ports = append(p.ports, state.Port{Device: l.Name, MAC: l.MAC, Roles: state.RoleGuarded.With(state.RoleXDPOut, l.XDPTarget)})
	for _, b := range below {
		if b.Device.Name != l.Name {
			p.ports = append(p.ports,
				state.Port{Device: b.Device.Name, MAC: b.Device.MAC, Roles: state.Roles(0).With(state.RoleXDPOut, b.Device.XDPTarget).With(state.RoleBridgePort, b.Tags.Len() == 0)},
				state.Lower{Device: b.Device.Name, Tags: b.Tags, Upper: l.Name})
		}
		p.attach(b.Device.Name, state.HookIngress, "ingress_tc")
		if xdp {
			p.attach(b.Device.Name, state.HookXDP, "ingress_xdp")
		}
	}
}

func (p *planner) attach(device string, hook state.Hook, program string) {
	p.attachments = append(p.attachments, state.Attachment{Device: device, Hook: hook, Program: program, Build: p.facts.Builds[program]})
}

func (p *planner) problem(severity state.Severity, path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: severity, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

func (r ReversePath) state() state.ReversePath {
	switch r {
	case ReverseLoose:
		return state.ReverseLoose
	case ReverseStrict:
		return state.ReverseStrict
	}
	return state.ReverseOff
}
