package route

import (
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns what [route] wants to exist. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	part := state.Part{Feature: "route"}
	c := From(f)
	if c == nil {
		return part
	}
	part.Objects = state.Desired{TablesOf(f)}
	tables := KernelTables(f, facts)
	for i, name := range c.Interfaces {
		n := f.Need(fmt.Sprintf("route.interfaces[%d]", i), name, state.RoleRouted)
		l, there := facts.Link(n.Device)
		if !there { // the host's problem
			continue
		}
		n.Unframed = state.UnframedLeft
		n.Taken, n.XDP = state.TakenBelow, state.Required
		if t := vrfTable(facts, l); t != 0 {
			n.Table = max(0, slices.Index(tables, t))
		}
		part.Needs = append(part.Needs, n)
	}
	return part
}

// TablesOf returns the route tables that [route] wants; none without it.
func TablesOf(f *config.File) state.RouteTables {
	c := From(f)
	if c == nil {
		return state.RouteTables{}
	}
	return state.RouteTables{Words4: c.words4(), Words6: c.words6()}
}

// KernelTables returns the kernel's tables that interfaces of [route] are looked
// up in, by number in the datapath: the main one, then those of VRFs.
func KernelTables(f *config.File, facts state.Facts) []uint32 {
	c := From(f)
	if c == nil {
		return nil
	}
	var vrfs []uint32
	for _, name := range c.Interfaces {
		l, _ := facts.Link(f.Interface(name).Device)
		if t := vrfTable(facts, l); t != 0 && !slices.Contains(vrfs, t) {
			vrfs = append(vrfs, t)
		}
	}
	slices.Sort(vrfs)
	return append([]uint32{state.TableMain}, vrfs[:min(len(vrfs), state.RouteTablesMax-1)]...)
}

// vrfTable is the table of the VRF that a device belongs to, 0 if it is in none.
func vrfTable(facts state.Facts, l state.LinkFact) uint32 {
	master, _ := facts.Link(l.Master)
	if l.Master == "" || master.Kind != "vrf" {
		return 0
	}
	return master.VRFTable
}
