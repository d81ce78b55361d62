package offload

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/state"
)

// Audit warns of devices whose packets cannot be offloaded into a PPPoE session: at TC
// the kernel has already merged packets (GRO), and each of them would need a PPPoE
// header of its own.
func Audit(parts []state.Part, facts state.Facts) []state.Problem {
	a := auditor{facts: facts, hosts: map[string]bool{}, xdp: map[string]bool{}, targets: map[string]bool{}}
	for _, part := range parts {
		for _, o := range part.Objects {
			a.object(o)
		}
		for _, n := range part.Needs {
			if n.Roles.Has(state.RoleOffloaded) {
				a.needs = append(a.needs, n)
			}
		}
	}
	session, ok := a.session()
	if !ok {
		return nil
	}
	var problems []state.Problem
	for _, n := range a.needs {
		joining := a.joining(n.Device)
		if len(joining) == 0 {
			continue
		}
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: n.Pos, Path: n.Path,
			What:   fmt.Sprintf("%s merges received packets (GRO), and TC cannot send merged packets into the PPPoE session %s: most TCP traffic from there stays with the stack", strings.Join(joining, ", "), session),
			Remedy: fmt.Sprintf(`offload in XDP (hook = "xdp") if the drivers support it, or switch GRO off: ethtool -K %s gro off`, joining[0]),
		})
	}
	return problems
}

type auditor struct {
	facts   state.Facts
	needs   []state.Need    // of offloaded interfaces
	hosts   map[string]bool // devices with addresses of the file
	xdp     map[string]bool // devices with an XDP program
	targets map[string]bool // devices to which XDP can send
}

func (a *auditor) object(o state.Object) {
	switch v := o.(type) {
	case state.Address:
		a.hosts[v.Device] = true
	case state.Attachment:
		a.xdp[v.Device] = a.xdp[v.Device] || v.Hook == state.HookXDP
	case state.IngressEntry:
		a.targets[v.Device] = v.Roles.Has(state.RoleXDPOut)
	}
}

// session returns the device of a PPPoE session. One that is not up yet shows by
// its name what it will be, as pppd calls it.
func (a *auditor) session() (device string, ok bool) {
	for _, n := range a.needs {
		l, there := a.facts.Link(n.Device)
		if there && l.Kind == "ppp" || !there && strings.HasPrefix(n.Device, "ppp") {
			device, ok = n.Device, true
		}
	}
	return device, ok
}

// joining returns the devices below an interface at which packets of hosts are
// joined before TC has them.
func (a *auditor) joining(device string) []string {
	l, there := a.facts.Link(device)
	if !there || l.Kind == "ppp" || !a.hosts[device] && !hasHosts(l) {
		return nil
	}
	var names []string
	for _, b := range a.facts.Below(l) {
		if b.Device.GRO && !a.inXDP(b.Device.Name) {
			names = append(names, b.Device.Name)
		}
	}
	return names
}

// hasHosts reports whether hosts have the router as their neighbour there: on what
// PPPoE runs over none has.
func hasHosts(l state.LinkFact) bool {
	for _, a := range l.Addresses {
		if !a.Addr().IsLinkLocalUnicast() {
			return true
		}
	}
	return false
}

// inXDP reports whether packets are forwarded before the kernel joins them, as far
// as is known: XDP takes them, and has a device to send them to.
func (a *auditor) inXDP(from string) bool {
	return a.xdp[from] && slices.ContainsFunc(a.needs, func(n state.Need) bool {
		l, there := a.facts.Link(n.Device)
		return there && (l.Name != from && a.targets[l.Name] || slices.ContainsFunc(a.facts.Arrivals(l), func(b state.Beneath) bool {
			return b.Device.Name != from && a.targets[b.Device.Name]
		}))
	})
}
