package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/state"
)

// Overlaps returns what overlaps by the file alone, on whatever host.
func Overlaps(parts []state.Part) []state.Problem { return overlaps(parts, state.Facts{}) }

// overlaps compares the addresses and networks that all sections use with each other
// and with the host's addresses, networks, gateways and routes. A conflict that
// would interrupt a service is an error, one that may surprise is a warning. Only
// this function does it; it runs at weft check, at weft plan, and whenever addresses
// change.
func overlaps(parts []state.Part, facts state.Facts) []state.Problem {
	a := &overlap{facts: facts}
	for _, p := range parts {
		a.claims = append(a.claims, p.Claims...)
		a.objects = append(a.objects, p.Objects...)
	}
	a.networks = networks(parts, facts)
	for _, p := range parts {
		for _, l := range p.Lists {
			a.claims = append(a.claims, a.near(l)...)
		}
	}
	for i, c := range a.claims {
		switch c.For {
		case state.ClaimTranslated:
			a.translated(c)
		case state.ClaimGiven:
			a.given(c)
		case state.ClaimBlocked:
			a.blocked(c)
		case state.ClaimOwn:
			a.own(c)
		}
		for _, other := range a.claims[:i] {
			a.pair(c, other)
		}
	}
	for _, p := range parts {
		for _, o := range p.Objects {
			if r, ok := o.(state.Route); ok && r.Prefix.Bits() > 0 {
				a.route(r)
			}
			devices, owner := state.DevicesMade(o)
			for _, d := range devices {
				a.device(d, owner)
			}
		}
	}
	return a.problems
}

// network is an address of the host and, with its length, the network there. Those
// of the devices that translators and subscribers are behind are none; bridges and
// pseudowires have hosts as any interface has.
type network struct {
	device  string
	address netip.Prefix
}

func (n network) String() string { return fmt.Sprintf("%s of %s", n.address, n.device) }

// networks are the host's networks, now, by the plan, or once a device of the file is there.
func networks(parts []state.Part, facts state.Facts) (list []network) {
	add := func(device string, p netip.Prefix) {
		n := network{device, p}
		if a := p.Addr(); a.IsLoopback() || a.IsLinkLocalUnicast() || slices.Contains(list, n) {
			return
		}
		list = append(list, n)
	}
	made := map[string]bool{}
	for _, p := range parts {
		for _, o := range p.Objects {
			if d, ok := o.(state.Device); ok {
				made[d.Name] = true
			}
		}
	}
	for _, l := range facts.Links {
		for _, p := range l.Addresses {
			if !made[l.Name] {
				add(l.Name, p)
			}
		}
	}
	for _, part := range parts {
		for _, o := range part.Objects {
			if a, ok := o.(state.Address); ok && !made[a.Device] {
				add(a.Device, a.Prefix)
			}
		}
		for _, c := range part.Claims {
			if c.For == state.ClaimOwn && !made[c.Device] {
				add(c.Device, c.Prefix)
			}
		}
	}
	return list
}

type overlap struct {
	facts    state.Facts
	claims   []state.Claim
	objects  state.Desired
	networks []network
	problems []state.Problem
}

func (a *overlap) problem(severity state.Severity, c state.Claim, what, remedy string) {
	a.problems = append(a.problems, state.Problem{Severity: severity, Pos: c.Pos, Path: c.Path, What: what, Remedy: remedy, Condition: state.Degraded})
}

// translated: packets for the host's own address would never reach the
// translator, and a neighbour's address would be answered for twice.
func (a *overlap) translated(c state.Claim) {
	for _, n := range a.networks {
		if c.Prefix.Contains(n.address.Addr()) {
			a.problem(state.Error, c, fmt.Sprintf("%s contains the router's own address %s: the kernel delivers its packets before they are translated", c.Prefix, n),
				"use addresses that no interface has; with a single address, a private pool and masquerading in nftables (docs/guides/firewall-and-nat64.md)")
			return
		}
		if a.shared(c) && n.address.Bits() < c.Prefix.Bits() && n.address.Contains(c.Prefix.Addr()) {
			a.problem(state.Warning, c, fmt.Sprintf("%s is in the network %s, and routers that share sessions all answer there for it, the passive ones too", c.Prefix, n),
				"use a prefix of its own that is routed to the active router, by VRRP or a routing protocol")
		}
	}
	a.gateway(c)
}

// shared reports whether a claim is that of a translator that shares its sessions.
func (a *overlap) shared(c state.Claim) bool {
	return slices.ContainsFunc(a.facts.Shared, func(name string) bool { return c.Section == "nat64."+name })
}

// gateway refuses to take the address of the host's own next hop.
func (a *overlap) gateway(c state.Claim) {
	for _, r := range a.facts.Routes {
		if r.Gateway.IsValid() && c.Prefix.Contains(r.Gateway) {
			a.problem(state.Error, c, fmt.Sprintf("%s contains the gateway of the host's route %s: the network behind it would be cut off", c.Prefix, r), "use addresses that no other router or host has")
			return
		}
	}
}

// given: the claim would route a network of the host to subscribers.
func (a *overlap) given(c state.Claim) {
	for _, n := range a.networks {
		host := n.address.Bits() == n.address.Addr().BitLen()
		switch {
		case c.Prefix.Contains(n.address.Addr()) && host:
			if !a.isGateway(n.address.Addr(), c.Section) {
				a.problem(state.Warning, c, fmt.Sprintf("%s contains the router's own address %s, which may be assigned to another host", c.Prefix, n), "remove that address from the pool")
			}
		case c.Prefix.Contains(n.address.Addr()):
			a.problem(state.Error, c, fmt.Sprintf("%s contains the network %s: its hosts would be cut off", c.Prefix, n), "give out addresses that no interface has")
			return
		case n.address.Contains(c.Prefix.Addr()) && !host && c.Prefix.Bits() > n.address.Bits():
			a.problem(state.Warning, c, fmt.Sprintf("%s is a part of the network %s: its hosts do not reach those addresses, because nothing answers there for them", c.Prefix, n),
				"use a prefix of its own, or proxy ARP (sysctl net.ipv4.conf."+n.device+".proxy_arp)")
		}
	}
	a.gateway(c)
}

func (a *overlap) isGateway(addr netip.Addr, section string) bool {
	return slices.ContainsFunc(a.claims, func(c state.Claim) bool {
		return c.For == state.ClaimGateway && c.Section == section && c.Prefix.Addr() == addr
	})
}

// pair compares a claim with an earlier one.
func (a *overlap) pair(c, other state.Claim) {
	given := func(k state.ClaimKind) bool { return k == state.ClaimGiven || k == state.ClaimGateway }
	clash := given(c.For) && (given(other.For) || other.For == state.ClaimTranslated) || c.For == state.ClaimTranslated && given(other.For)
	if !clash || c.Section == other.Section || !c.Prefix.Overlaps(other.Prefix) {
		return
	}
	a.problem(state.Error, c, fmt.Sprintf("%s overlaps %s, which is %s (%s)", c.Prefix, other.Prefix, other.Path, other.Pos), "let each address have one owner")
}

// blocked warns of hosts, and of the next hop, that the router's own block list cuts
// off.
func (a *overlap) blocked(c state.Claim) {
	cut := func(addr netip.Addr) bool {
		return c.Prefix.Contains(addr) && !slices.ContainsFunc(a.claims, func(x state.Claim) bool {
			return x.For == state.ClaimExcepted && x.Device == c.Device && x.Prefix.Bits() >= c.Prefix.Bits() && x.Prefix.Contains(addr)
		})
	}
	a.peers(c, cut)
	for _, r := range a.facts.Routes {
		if r.Device == c.Device && r.Gateway.IsValid() && cut(r.Gateway) {
			a.problem(state.Warning, c, fmt.Sprintf("drops packets from %s, the gateway of the host's route %s", r.Gateway, r), fmt.Sprintf("add it to %s, as %q", c.Except, netip.PrefixFrom(r.Gateway, r.Gateway.BitLen())))
			return
		}
	}
	for _, n := range a.networks {
		inside := n.address.Bits() < c.Prefix.Bits() && n.address.Contains(c.Prefix.Addr()) && cut(c.Prefix.Addr())
		if n.device == c.Device && (cut(n.address.Addr()) || inside) {
			a.problem(state.Warning, c, fmt.Sprintf("%s drops packets from hosts of the network %s", c.Prefix, n), fmt.Sprintf("add the network to %s, as %q", c.Except, n.address.Masked()))
			return
		}
	}
}

// route compares a route of weft's with the host's own.
func (a *overlap) route(r state.Route) {
	i := slices.IndexFunc(a.claims, func(c state.Claim) bool {
		return c.Prefix == r.Prefix && (c.For == state.ClaimTranslated || c.For == state.ClaimGiven || c.For == state.ClaimRouted)
	})
	c := state.Claim{}
	if i >= 0 {
		c = a.claims[i]
	}
	metric := r.Metric
	if metric == 0 && r.Prefix.Addr().Is6() {
		metric = state.DefaultMetric6
	}
	for _, host := range a.facts.Routes {
		same := host.Prefix == r.Prefix
		switch {
		case same && host.Metric == metric:
			a.problem(state.Error, c, fmt.Sprintf("the host has a route of its own for %s: %s", r.Prefix, host), "remove that route, or give it another metric")
		case same && host.Metric < metric:
			a.problem(state.Warning, c, fmt.Sprintf("the host's own route is preferred to that to %s: %s", r.Device, host), "remove that route, or give it a larger metric")
		case same:
			a.problem(state.Warning, c, fmt.Sprintf("the route to %s is preferred to the host's own: %s", r.Device, host), "remove that route if it is of no use")
		case host.Prefix.Bits() > r.Prefix.Bits() && r.Prefix.Contains(host.Prefix.Addr()) && r.Prefix.Bits() > 1:
			a.problem(state.Warning, c, fmt.Sprintf("a part of %s goes by the host's own route: %s", r.Prefix, host), "remove that route if it is of no use")
		}
	}
}

// device reports a device whose name another device of the host has.
func (a *overlap) device(name, owner string) {
	if l, there := a.facts.Link(name); there && l.Foreign {
		a.problem(state.Error, state.Claim{Path: owner}, fmt.Sprintf("the host has a device %s already, which weft has not made", name), "give the section another name or device")
	}
}
