package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/config"
)

// addresses adds what the host's devices have beside what the file says (DHCP,
// PPP, other tools), under the condition of routes.
func (w *topology) addresses(host map[string]HostDevice, warn func(string)) {
	if w.foreign(host) {
		return
	}
	for _, d := range w.devices {
		for _, a := range host[d.dev].Addresses {
			if err := w.addAddress(d.nearIndex, a); err != nil {
				warn(fmt.Sprintf("the host's address %s of %s is left out: %v", a.Address, d.dev, err))
			}
		}
	}
}

// foreign reports whether the file is for another host.
func (w *topology) foreign(host map[string]HostDevice) bool {
	return slices.ContainsFunc(w.devices, func(d device) bool { return !d.port && !host[d.dev].Real })
}

func (w *topology) addAddress(index int, a HostAddress) error {
	addr := &netlink.Addr{IPNet: ipNet(a.Address), Flags: unix.IFA_F_NODAD}
	if a.Peer.IsValid() {
		addr.Peer = ipNet(a.Peer)
	}
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}
	if err := w.netlink.AddrAdd(link, addr); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// routes adds the host's routes of its devices and, for a family that has no default
// route then, one out of the first interface with such an address. A file that names
// a device which the host does not have is for another host: then nothing of the host
// counts. Where no interface has an address of a family, as in an imported file, IPv4
// leaves by the last interface and IPv6 by the first, as importers write them. Routes of
// the host that cannot be added are reported by warn.
func (w *topology) routes(f *config.File, host map[string]HostDevice, warn func(string)) error {
	if w.foreign(host) {
		host = nil
	}
	has := map[bool]bool{} // default route, by "is IPv6"
	for _, d := range w.devices {
		for _, r := range host[d.dev].Routes {
			if err := w.addRoute(d.nearIndex, r); err != nil {
				warn(fmt.Sprintf("the host's route %s of %s via %s is left out: %v", r.To, d.dev, r.Via, err))
				continue
			}
			if r.To.Bits() == 0 {
				has[r.To.Addr().Is6()] = true
			}
		}
	}
	for _, n := range f.Names("interface") {
		i := slices.IndexFunc(w.devices, func(d device) bool { return d.dev == f.Interface(n).Device })
		if i < 0 || w.devices[i].port {
			continue // the router's own, that leads to no far end
		}
		addresses := slices.Clone(f.Interface(n).Addresses)
		for _, a := range host[w.devices[i].dev].Addresses {
			addresses = append(addresses, a.Address)
		}
		for _, a := range addresses {
			is6 := a.Addr().Is6()
			if has[is6] {
				continue
			}
			has[is6] = true
			if err := w.defaultRoute(w.devices[i], is6); err != nil {
				return err
			}
		}
	}
	ends := slices.DeleteFunc(slices.Clone(w.devices), func(d device) bool { return d.port })
	for is6, i := range map[bool]int{false: len(ends) - 1, true: 0} {
		if !has[is6] && len(ends) > 0 {
			err := w.defaultRoute(ends[i], is6)
			if err != nil && !errors.Is(err, unix.ENODEV) { // a device too small for IPv6 has none
				return err
			}
		}
	}
	return nil
}

func (w *topology) defaultRoute(d device, is6 bool) error {
	r := HostRoute{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: gateway4, Metric: lastResort}
	if is6 {
		r = HostRoute{To: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Via: gateway6, Metric: lastResort}
	}
	if err := w.addRoute(d.nearIndex, r); err != nil {
		return fmt.Errorf("add a default route out of %s: %w", d.name, err)
	}
	return nil
}

func (w *topology) addRoute(index int, r HostRoute) error {
	route := &netlink.Route{LinkIndex: index, Dst: ipNet(r.To), Priority: r.Metric, Scope: netlink.SCOPE_LINK}
	if r.Via.IsValid() {
		route.Gw, route.Scope = r.Via.AsSlice(), netlink.SCOPE_UNIVERSE
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	if r.To.Addr().Is6() {
		route.Scope = netlink.SCOPE_UNIVERSE
	}
	return w.netlink.RouteReplace(route)
}
