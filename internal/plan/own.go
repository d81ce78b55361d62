package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/state"
)

// own compares an address that the file gives to an interface with what the device is,
// and with the addresses of the host's other devices.
func (a *overlap) own(c state.Claim) {
	l, there := a.facts.Link(c.Device)
	if !there {
		return
	}
	if master, ok := a.facts.Link(l.Master); ok && master.Kind == "bridge" {
		a.problem(state.Warning, c, fmt.Sprintf("%s is a port of the bridge %s: what arrives on it goes to the bridge, and %s is never reached there", l.Name, master.Name, c.Prefix.Addr()),
			fmt.Sprintf("give the address to an interface with device = %q, or take %s out of the bridge (ip link set %s nomaster)", master.Name, l.Name, l.Name))
	}
	if mtu := a.mtu(l); c.Prefix.Addr().Is6() && mtu > 0 && mtu < 1280 {
		a.problem(state.Warning, c, fmt.Sprintf("%s has an MTU of %d bytes, and the kernel has no IPv6 on a device with less than 1280 (RFC 8200 section 5)", l.Name, mtu), "set mtu = 1280 or more on the interface")
	}
	for _, n := range a.networks {
		if n.device == c.Device {
			continue
		}
		switch {
		case n.address.Addr() == c.Prefix.Addr():
			a.problem(state.Warning, c, fmt.Sprintf("%s is also an address of %s", c.Prefix.Addr(), n.device), fmt.Sprintf("take it from one of the two (ip addr del %s dev %s)", n.address, n.device))
		case n.address.Masked() == c.Prefix.Masked() && !c.Prefix.IsSingleIP():
			a.problem(state.Warning, c, fmt.Sprintf("the network %s is also that of %s (%s): hosts of it are looked for on one of the two only", c.Prefix.Masked(), n.device, n.address), "give each interface a network of its own, or join them in a bridge")
		}
	}
}

// mtu is that of a device by the plan, or as it is.
func (a *overlap) mtu(l state.LinkFact) int {
	for _, o := range a.objects {
		if w, ok := o.(state.Link); ok && w.Name == l.Name && w.MTU != 0 {
			return w.MTU
		}
	}
	return l.MTU
}

// peers warns of a feature's remote ends, from which a block list drops what arrives.
func (a *overlap) peers(c state.Claim, cut func(netip.Addr) bool) {
	for _, x := range a.claims {
		inside := x.Prefix.Contains(c.Prefix.Addr()) && cut(c.Prefix.Addr())
		if x.For == state.ClaimPeer && (cut(x.Prefix.Addr()) || inside) && a.leads(x.Prefix.Addr(), c.Device) {
			peer := fmt.Sprint(x.Prefix)
			if x.Prefix.IsSingleIP() {
				peer = fmt.Sprint(x.Prefix.Addr())
			}
			a.problem(state.Warning, c, fmt.Sprintf("%s drops packets from %s, which is %s (%s)", c.Prefix, peer, x.Path, x.Pos), fmt.Sprintf("add it to %s, as %q", c.Except, x.Prefix))
			return
		}
	}
}

// leads reports whether the host's networks and routes lead to an address by a device.
func (a *overlap) leads(to netip.Addr, device string) bool {
	longest, by := -1, []string(nil)
	consider := func(p netip.Prefix, d string) {
		switch {
		case !p.Contains(to) || p.Bits() < longest:
		case p.Bits() > longest:
			longest, by = p.Bits(), []string{d}
		default:
			by = append(by, d)
		}
	}
	for _, n := range a.networks {
		consider(n.address.Masked(), n.device)
	}
	for _, r := range a.facts.Routes {
		consider(r.Prefix, r.Device)
	}
	return slices.Contains(by, device)
}

// near returns the claims of a list that overlap the host's networks, gateways or the
// remote ends of features: only these can matter.
func (a *overlap) near(l state.ClaimList) (list []state.Claim) {
	var near []netip.Prefix
	for _, n := range a.networks {
		near = append(near, n.address)
	}
	for _, r := range a.facts.Routes {
		if r.Gateway.IsValid() {
			near = append(near, netip.PrefixFrom(r.Gateway.WithZone(""), r.Gateway.BitLen()))
		}
	}
	for _, c := range a.claims {
		if c.For == state.ClaimPeer {
			near = append(near, c.Prefix)
		}
	}
	for _, p := range l.Prefixes {
		if slices.ContainsFunc(near, p.Overlaps) {
			c := l.Each
			c.Prefix = p.Masked()
			list = append(list, c)
		}
	}
	return list
}
