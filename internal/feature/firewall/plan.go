package firewall

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// Plan returns the nftables table of the file's zones. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	part := state.Part{Feature: "firewall"}
	body := Ruleset(f, addresses(f, facts), facts.Made)
	if body == "" {
		return part
	}
	part.Objects = append(part.Objects, state.NFTable{Name: state.FirewallTable, Owner: "firewall", Body: body})
	part.Problems = append(unfiltered(f, facts), targets(f, facts)...)
	return part
}

// addresses returns the router's own, by device: those that it has, and those that the
// file gives it.
func addresses(f *config.File, facts state.Facts) map[string][]netip.Prefix {
	all := map[string][]netip.Prefix{}
	for _, l := range facts.Links {
		if l.Name != "lo" {
			all[l.Name] = slices.Clone(l.Addresses)
		}
	}
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		all[i.Device] = append(all[i.Device], i.Addresses...)
	}
	for _, device := range slices.Collect(maps.Keys(all)) {
		slices.SortFunc(all[device], netip.Prefix.Compare)
		all[device] = slices.Compact(all[device])
	}
	return all
}

// unfiltered says which interfaces of the file are in no zone.
func unfiltered(f *config.File, facts state.Facts) (problems []state.Problem) {
	in := func(device string) bool {
		return slices.ContainsFunc(zones(f), func(z zone) bool { return z.has(device) })
	}
	for _, name := range f.Names("interface") {
		device := f.Interface(name).Device
		if l, _ := facts.Link(device); in(device) || l.Master != "" {
			continue
		}
		path := "interface." + name
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path,
			What: "is in no zone: the firewall filters nothing of it", Remedy: fmt.Sprintf("add %q to the interfaces of a [zone.NAME]", name),
		})
	}
	return problems
}

// targets says which forwards lead to hosts that the router has no network for.
func targets(f *config.File, facts state.Facts) (problems []state.Problem) {
	for i, fw := range From(f).Forwards {
		to, ok := targetOf(fw.To)
		if !ok {
			continue
		}
		near := false
		for _, list := range addresses(f, facts) {
			for _, p := range list {
				near = near || p.Contains(to.Addr())
			}
		}
		for _, r := range facts.Routes {
			near = near || r.Prefix.Bits() > 0 && r.Prefix.Contains(to.Addr())
		}
		if near {
			continue
		}
		path := fmt.Sprintf("firewall.port_forwards[%d].to", i)
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.Degraded,
			What: fmt.Sprintf("%s is in no network of this router", to.Addr()), Remedy: "write the address of a host behind the router, or add the route to it",
		})
	}
	return problems
}
