package firewall

import (
	"net/netip"
	"slices"
)

// portForwards leads ports of the router's addresses to hosts.
func (w *writer) portForwards() {
	if len(w.rules.Forwards) == 0 {
		return
	}
	var outer, inner []string
	for _, z := range w.zones {
		if z.kind == WAN {
			outer = append(outer, z.devices...)
		} else {
			inner = append(inner, z.devices...)
		}
	}
	w.chain("port_forwards", "type nat hook prerouting priority dstnat", func() {
		for _, f := range w.rules.Forwards {
			from := ""
			if list := prefixes(f.From, true); len(list) > 0 {
				from = "ip saddr " + set(list) + " "
			}
			to, _ := targetOf(f.To)
			target := to.Addr().String()
			if to.Port() != 0 {
				target = to.String()
			}
			match := "fib daddr type local " + transport(protocolsOf(f.Protocol), []string{f.Port})
			if len(outer) > 0 {
				w.line(`iifname %s meta nfproto ipv4 %s%scounter dnat ip to %s comment "%s"`, set(quote(outer)), from, match, target, f.Name)
			}
			if !f.NoLoop && len(inner) > 0 {
				w.line(`iifname %s %s%s%scounter dnat ip to %s comment "%s: from inside"`, set(quote(inner)), w.notInner(), from, match, target, f.Name)
			}
		}
	})
}

// inner returns the router's addresses, with their subnets, on devices of zones that are
// not the Internet.
func (w *writer) inner() (list []netip.Prefix) {
	for _, z := range w.zones {
		for _, d := range z.devices {
			if z.kind != WAN {
				list = append(list, w.addresses[d]...)
			}
		}
	}
	return list
}

// notInner leaves out the router's addresses in networks behind it: there its own
// services are.
func (w *writer) notInner() string {
	var own []string
	for _, p := range w.inner() {
		if p.Addr().Is4() {
			own = append(own, p.Addr().String())
		}
	}
	if len(own) == 0 {
		return "meta nfproto ipv4 "
	}
	return "ip daddr != " + set(own) + " "
}

// masquerade gives connections the router's address where their source has no way back.
func (w *writer) masquerade() {
	hairpin := slices.ContainsFunc(w.rules.Forwards, func(f Forward) bool { return !f.NoLoop })
	nat := slices.ContainsFunc(w.zones, func(z zone) bool { return len(z.nat) > 0 })
	if !hairpin && !nat {
		return
	}
	inside := prefixes(w.inner(), true)
	if len(inside) == 0 {
		inside = prefixes(private(), true)
	}
	w.chain("masquerade_out", "type nat hook postrouting priority srcnat", func() {
		for _, z := range w.zones {
			if sources := prefixes(z.nat, true); len(sources) > 0 {
				w.line(`oifname %s ip saddr %s counter masquerade comment "%s: with the router's address"`, set(quote(z.devices)), set(sources), z.name)
			}
			if hairpin && z.kind != WAN {
				// the host would answer directly, from an address that was not asked
				w.line(`oifname %s ct status dnat ip saddr %s counter masquerade comment "%s: by a forward from inside"`, set(quote(z.devices)), set(inside), z.name)
			}
		}
	})
}
