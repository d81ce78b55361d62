package guard

import (
	"fmt"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan gives what the sections [guard.NAME] want to exist. It is pure. Whether a
// guard is in XDP, the planner decides.
func Plan(f *config.File, facts state.Facts) state.Part {
	part := state.Part{Feature: "guard"}
	for _, name := range f.Names("guard") {
		c := From(f, name)
		if c == nil {
			continue
		}
		for i, in := range c.Interfaces {
			n := f.Need(fmt.Sprintf("guard.%s.interfaces[%d]", name, i), in, state.RoleGuarded)
			l, there := facts.Link(n.Device)
			switch {
			case !there: // the host's problem
				continue
			case l.MAC == [6]byte{}:
				part.Problems = append(part.Problems, state.Problem{
					Pos: n.Pos, Path: n.Path, What: fmt.Sprintf("%s is no Ethernet device; frames that arrive there cannot be guarded", l.Name),
					Remedy: "take it out of the list",
				})
				continue
			}
			n.Taken, n.Together, n.XDP = state.TakenBelow, true, state.Required
			part.Needs = append(part.Needs, n)
			part.Objects = append(part.Objects, state.Guard{Device: l.Name, Bogons: c.Bogons, Reverse: c.ReversePath.state(), Rates: c.rates()})
		}
	}
	return part
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
