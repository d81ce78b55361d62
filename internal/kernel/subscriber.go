package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SubscriberProtocol marks the routes to subscribers' prefixes that no pool
// covers: `ip route show proto 89`. They come and go with sessions.
const SubscriberProtocol = 89

// RouteSubscriber routes a prefix to a device.
func (k *Kernel) RouteSubscriber(p netip.Prefix, device string) error {
	l, err := k.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(p), Protocol: SubscriberProtocol, Table: unix.RT_TABLE_MAIN}
	if p.Addr().Is4() {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := k.putRoute(r); err != nil {
		return fmt.Errorf("add route %s dev %s: %w", p, device, err)
	}
	return nil
}

// HoldSubscriber makes the part of a delegated prefix that no interface uses
// unreachable: otherwise packets for it would loop between the two routers (RFC 7084
// section 4.2, WPD-5). UnrouteSubscriber reverts it.
func (k *Kernel) HoldSubscriber(p netip.Prefix) error {
	r := &netlink.Route{Dst: ipNet(p), Type: unix.RTN_UNREACHABLE, Protocol: SubscriberProtocol, Table: unix.RT_TABLE_MAIN, Priority: unreachableMetric}
	if err := k.putRoute(r); err != nil {
		return fmt.Errorf("make %s unreachable: %w", p, err)
	}
	return nil
}

// UnrouteSubscribers removes the routes for which keep returns false.
func (k *Kernel) UnrouteSubscribers(keep func(p netip.Prefix) bool) error {
	list, err := k.routesOf(netlink.FAMILY_ALL, SubscriberProtocol)
	if err != nil {
		return fmt.Errorf("list routes of subscribers: %w", err)
	}
	var errs []error
	for _, r := range list {
		if r.Dst == nil {
			continue
		}
		a, ok := netip.AddrFromSlice(r.Dst.IP)
		length, _ := r.Dst.Mask.Size()
		if !ok || keep(netip.PrefixFrom(a.Unmap(), length)) {
			continue
		}
		if err := k.nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route %s: %w", r.Dst, err))
		}
	}
	return errors.Join(errs...)
}

// UnrouteSubscriber removes the route to one prefix.
func (k *Kernel) UnrouteSubscriber(p netip.Prefix) error {
	r := &netlink.Route{Dst: ipNet(p), Protocol: SubscriberProtocol, Table: unix.RT_TABLE_MAIN}
	if err := k.nl.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove route %s: %w", p, err)
	}
	return nil
}
