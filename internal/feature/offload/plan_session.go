package offload

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// sessions warns of what cannot enter a PPPoE session: in TC the kernel has joined
// packets already (GRO), and each of them would need a session header of its own.
func (p *planner) sessions(c *Config) {
	var session string
	for _, name := range c.Interfaces {
		device := p.f.Interface(name).Device
		l, there := p.facts.Link(device)
		// one that is not up yet tells by its name what it will be, as pppd calls it
		if there && l.Kind == "ppp" || !there && strings.HasPrefix(device, "ppp") {
			session = device
		}
	}
	if session == "" {
		return
	}
	for i, name := range c.Interfaces {
		l, there := p.facts.Link(p.f.Interface(name).Device)
		if !there || l.Kind == "ppp" || !hasHosts(l, p.f.Interface(name)) {
			continue
		}
		var joining []string
		for _, b := range p.facts.Below(l) {
			if b.Device.GRO && !p.inXDP(b.Device) {
				joining = append(joining, b.Device.Name)
			}
		}
		if len(joining) == 0 {
			continue
		}
		p.problem(state.Warning, fmt.Sprintf("offload.interfaces[%d]", i),
			fmt.Sprintf("%s joins packets that it receives (GRO), and TC cannot send those into the PPPoE session %s: most of TCP from there is left to the stack", strings.Join(joining, ", "), session),
			fmt.Sprintf(`offload in XDP (hook = "xdp") where the drivers can, or switch GRO off: ethtool -K %s gro off`, joining[0]))
	}
}

// hasHosts tells whether hosts have the router as their neighbour there: on what
// PPPoE runs over none has.
func hasHosts(l state.LinkFact, i *config.Interface) bool {
	for _, a := range l.Addresses {
		if !a.Addr().IsLinkLocalUnicast() {
			return true
		}
	}
	return len(i.Addresses) > 0
}

// inXDP tells whether packets are forwarded before the kernel joins them, as far
// as is known: XDP takes them, and has a device to send them to.
func (p *planner) inXDP(from state.LinkFact) bool {
	if !slices.ContainsFunc(p.attachments, func(o state.Object) bool {
		a, is := o.(state.Attachment)
		return is && a.Device == from.Name && a.Hook == state.HookXDP
	}) {
		return false
	}
	for device, port := range p.ports {
		if device != from.Name && port.Roles.Has(state.RoleXDPOut) {
			return true
		}
	}
	return false
}
