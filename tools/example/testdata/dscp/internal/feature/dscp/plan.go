package dscp

import (
	"fmt"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan asks for a role of each interface. The planner makes the ingress entries of it, and
// attaches the programs.
func Plan(f *config.File, facts state.Facts) state.Part {
	part := state.Part{Feature: "dscp"}
	for _, name := range f.Names("dscp") {
		for i, in := range From(f, name).Interfaces {
			n := f.Need(fmt.Sprintf("dscp.%s.interfaces[%d]", name, i), in, state.RoleDscp)
			if _, there := facts.Link(n.Device); !there {
				continue // feature host reports it
			}
			n.Taken, n.XDP = state.TakenBelow, state.Wanted
			part.Needs = append(part.Needs, n)
		}
	}
	return part
}
