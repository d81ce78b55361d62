package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DelegationProtocol marks the routes to delegated prefixes: `ip -6 route show
// proto 88`. They come and go with leases, not with the configuration, so they
// are no objects of a plan.
const DelegationProtocol = 88

// unreachableMetric is higher than every other route's metric.
const unreachableMetric = 65535

// Delegate routes a delegated prefix to its router on a device.
func (k *Kernel) Delegate(p netip.Prefix, via netip.Addr, device string) error {
	l, err := k.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(p), Gw: via.AsSlice(), Protocol: DelegationProtocol, Table: unix.RT_TABLE_MAIN}
	if err := k.putRoute(r); err != nil {
		return fmt.Errorf("add route %s via %s dev %s: %w", p, via, device, err)
	}
	return nil
}

// Undelegate removes the route.
func (k *Kernel) Undelegate(p netip.Prefix) error {
	return k.removeDelegations(func(r netlink.Route) bool { return r.Type == unix.RTN_UNICAST && samePrefix(r, p) })
}

// HoldSpace makes the undelegated part of a prefix unreachable, so that packets do
// not loop between this router and the next (RFC 7084 section 4.2, WPD-5 requires
// that of prefixes that are delegated to us).
func (k *Kernel) HoldSpace(p netip.Prefix) error {
	r := &netlink.Route{Dst: ipNet(p), Type: unix.RTN_UNREACHABLE, Protocol: DelegationProtocol, Table: unix.RT_TABLE_MAIN, Priority: unreachableMetric}
	if err := k.putRoute(r); err != nil {
		return fmt.Errorf("make %s unreachable: %w", p, err)
	}
	return nil
}

// Undelegated removes every delegation for which keep returns false, covering
// prefixes too.
func (k *Kernel) Undelegated(keep func(p netip.Prefix) bool) error {
	return k.removeDelegations(func(r netlink.Route) bool {
		if r.Dst == nil {
			return false
		}
		a, ok := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		return ok && !keep(netip.PrefixFrom(a, bits))
	})
}

func samePrefix(r netlink.Route, p netip.Prefix) bool {
	return r.Dst != nil && r.Dst.String() == ipNet(p).String()
}

func (k *Kernel) removeDelegations(which func(netlink.Route) bool) error {
	list, err := k.routesOf(netlink.FAMILY_V6, DelegationProtocol)
	if err != nil {
		return fmt.Errorf("list delegated routes: %w", err)
	}
	var errs []error
	for _, r := range list {
		if !which(r) {
			continue
		}
		if err := k.nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route %s: %w", r.Dst, err))
		}
	}
	return errors.Join(errs...)
}
