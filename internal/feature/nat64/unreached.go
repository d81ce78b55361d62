package nat64

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

// unreached warns of networks of the router's own that IPv6 nodes cannot reach: under the
// well-known prefix private addresses, and those for documentation, are not translated
// (RFC 6052 section 3.1). Networks behind other prefixes of the section are reached by those.
func unreached(f *config.File, facts state.Facts) (problems []state.Problem) {
	for _, name := range f.Names("nat64") {
		c := From(f, name)
		if c.Mode == CLAT || c.Prefix != wellKnown() || len(c.prefixes()) > 1 {
			continue
		}
		for _, in := range c.Interfaces {
			for _, network := range networks4(f, facts, in) {
				why, bad := nonGlobal(network)
				if !bad {
					continue
				}
				path := "nat64." + name + ".prefix"
				problems = append(problems, state.Problem{
					Severity: state.Warning, Pos: f.Position(path), Path: path,
					What:   fmt.Sprintf("IPv6 nodes cannot reach the network %s of interface.%s under 64:ff9b::/96: it is %s (RFC 6052 section 3.1)", network, in, why),
					Remedy: `use a prefix of your own, or one like "64:ff9b:1::/96" (RFC 8215), if they are to reach it`,
				})
			}
		}
	}
	return problems
}

// networks4 lists the IPv4 networks that an interface has by the file or on this host.
func networks4(f *config.File, facts state.Facts, name string) (list []netip.Prefix) {
	i := f.Interface(name)
	if i == nil {
		return nil
	}
	l, _ := facts.Link(i.Device)
	for _, a := range slices.Concat(i.Addresses, l.Addresses) {
		if a.IsValid() && a.Addr().Is4() && !a.Addr().IsLinkLocalUnicast() && !slices.Contains(list, a.Masked()) {
			list = append(list, a.Masked())
		}
	}
	return list
}
