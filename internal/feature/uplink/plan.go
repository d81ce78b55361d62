package uplink

import (
	"fmt"
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// Standby is what the metric of a default route grows by while its uplink is down: it
// stays, so that probes find their way, and so that something is tried when all
// uplinks are down.
const Standby = 100_000

// Gateway is a default route of one uplink.
type Gateway struct {
	Name    string // of the uplink
	Family  int    // 0: IPv4, 1: IPv6
	Device  string
	Gateway netip.Addr
	Metric  int // in force
	Down    bool
	First   bool              // it is the one in use
	Ahead   []state.RouteFact // the host's own default routes that the kernel prefers
}

// Plan returns the default routes. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	part := state.Part{Feature: "uplink"}
	for _, g := range Gateways(f, facts) {
		part.Objects = append(part.Objects, state.Route{Prefix: anywhere(g.Gateway), Device: g.Device, Gateway: g.Gateway, Metric: g.Metric})
		for _, r := range g.Ahead {
			path := "uplink." + g.Name
			part.Problems = append(part.Problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.Degraded,
				What:   fmt.Sprintf("the host has a default route that the kernel prefers: %s", r),
				Remedy: "take it out where it is configured (ifupdown, systemd-networkd, NetworkManager, a DHCP client), or give it a higher metric",
			})
		}
	}
	part.Problems = append(part.Problems, withoutGateway(f)...)
	return part
}

func anywhere(gateway netip.Addr) netip.Prefix {
	return netip.PrefixFrom(gateway.WithZone(""), 0).Masked()
}

// Gateways returns the default routes of all uplinks, with their metrics.
func Gateways(f *config.File, facts state.Facts) (list []Gateway) {
	for fam := range 2 {
		taken := map[int]bool{}
		first := -1
		for n, name := range f.Names("uplink") {
			g, ok := GatewayOf(f, facts, name, fam)
			if !ok {
				continue
			}
			g.Metric = metricOf(facts, From(f, name), n, anywhere(g.Gateway), taken)
			taken[g.Metric] = true
			g.Ahead = aheadOf(facts, g)
			if g.Down {
				g.Metric += Standby
			}
			list = append(list, g)
			if first < 0 || g.Metric < list[first].Metric {
				first = len(list) - 1
			}
		}
		if first >= 0 && len(list[first].Ahead) == 0 {
			list[first].First = true
		}
	}
	return list
}

// Row is the row of weft show uplinks, without what probes know.
func (g Gateway) Row() Row {
	r := Row{Uplink: g.Name, Device: g.Device, Family: familyNames[g.Family], Gateway: g.Gateway.String(), Metric: g.Metric, State: Spare}
	switch {
	case g.Down:
		r.State = Down
	case g.First:
		r.State = InUse
	}
	return r
}

// GatewayOf returns the default route of an uplink in a family, without its metric; ok
// is false if it has none now.
func GatewayOf(f *config.File, facts state.Facts, name string, fam int) (g Gateway, ok bool) {
	c := From(f, name)
	i := f.Interface(c.Interface)
	if i == nil {
		return g, false
	}
	_, there := facts.Link(i.Device)
	if !there {
		return g, false // a round comes when it is
	}
	for _, a := range c.Gateways {
		if a.IsValid() && family(a) == fam {
			down := facts.Uplinks[name]
			return Gateway{Name: name, Family: fam, Device: i.Device, Gateway: a, Down: fam == 0 && down.Down4 || fam == 1 && down.Down6}, true
		}
	}
	return g, false
}

// metricOf is the uplink's metric: that of the file, or the next one that neither the
// host's routes of other devices nor uplinks before it have.
func metricOf(facts state.Facts, c *Config, n int, to netip.Prefix, taken map[int]bool) int {
	least := c.Metric
	if least == 0 {
		least = 1 + n
	}
	if to.Addr().Is6() {
		least += state.DefaultMetric6
	}
	for used := true; used; {
		used = taken[least]
		for _, r := range facts.Routes {
			used = used || r.Prefix == to && r.Metric == least
		}
		if used {
			least++
		}
	}
	return least
}

// aheadOf returns the host's own default routes that the kernel prefers.
func aheadOf(facts state.Facts, g Gateway) (ahead []state.RouteFact) {
	for _, r := range facts.Routes {
		if r.Prefix == anywhere(g.Gateway) && r.Metric < g.Metric {
			ahead = append(ahead, r)
		}
	}
	return ahead
}

// withoutGateway says which uplinks lead nowhere.
func withoutGateway(f *config.File) (problems []state.Problem) {
	for _, name := range f.Names("uplink") {
		if len(From(f, name).Gateways) > 0 {
			continue
		}
		path := "uplink." + name
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path, Condition: state.NotWorking,
			What: "has no gateway: it is no default route", Remedy: "write the provider's router, as gateways = [\"192.0.2.1\"]",
		})
	}
	return problems
}
