package guard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns what the sections [guard.NAME] want to exist. It is pure. Whether a
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
			if !there { // the host's problem
				continue
			}
			n.Taken, n.Together, n.XDP = state.TakenBelow, true, state.Required
			part.Needs = append(part.Needs, n)
			if l.Encap != "" {
				continue // the planner refuses it
			}
			part.Claims = append(part.Claims, claims(f, name, l.Name)...)
			part.Lists = append(part.Lists, lists(f, facts, name, l.Name)...)
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

// claims are the sources that one device refuses.
func claims(f *config.File, name, device string) (list []state.Claim) {
	add := func(path string, p netip.Prefix, kind state.ClaimKind) {
		list = append(list, state.Claim{Prefix: p.Masked(), For: kind, Device: device, Except: "[block] except", Section: "guard." + name, Path: path, Pos: f.Position(path)})
	}
	if From(f, name).Bogons {
		for _, p := range Bogons() {
			add("guard."+name+".bogons", p, state.ClaimBlocked)
		}
	}
	b := BlockOf(f)
	for i, p := range b.Prefixes {
		add(fmt.Sprintf("block.prefixes[%d]", i), p, state.ClaimBlocked)
	}
	for i, p := range b.Except {
		add(fmt.Sprintf("block.except[%d]", i), p, state.ClaimExcepted)
	}
	return list
}

// lists are the same out of the files and sets that [block] names.
func lists(f *config.File, facts state.Facts, name, device string) (all []state.ClaimList) {
	for _, path := range slices.Sorted(maps.Keys(facts.Listed)) {
		c := state.Claim{For: state.ClaimBlocked, Device: device, Except: "[block] except", Section: "guard." + name, Path: path, Pos: f.Position(path)}
		all = append(all, state.ClaimList{Each: c, Prefixes: facts.Listed[path]})
	}
	return all
}
