package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

func (k *Kernel) applyRoute(_ context.Context, o state.Route, remove bool) error {
	l, err := k.nl.LinkByName(o.Device)
	if err != nil {
		if remove {
			return nil // went with its device
		}
		return fmt.Errorf("find device %s: %w", o.Device, err)
	}
	r := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: ipNet(o.Prefix), Protocol: RouteProtocol,
		Table: unix.RT_TABLE_MAIN, MTU: o.MTU, Scope: netlink.SCOPE_LINK, Priority: o.Metric,
	}
	if o.Prefix.Addr().Is6() {
		r.Scope = netlink.SCOPE_UNIVERSE
	}
	if o.Gateway.IsValid() {
		r.Gw, r.Scope = o.Gateway.AsSlice(), netlink.SCOPE_UNIVERSE
		r.Flags = int(netlink.FLAG_ONLINK) // a provider's gateway may be outside of the subnet that it assigns
	}
	if remove {
		if err := k.nl.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route %s dev %s: %w", o.Prefix, o.Device, err)
		}
		return nil
	}
	if err := k.putRoute(r); err != nil {
		return fmt.Errorf("add route %s dev %s: %w", o.Prefix, o.Device, err)
	}
	return nil
}

func (k *Kernel) observeRoutes(v *view) (found []state.Route, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Protocol: RouteProtocol, Table: unix.RT_TABLE_MAIN}
		routes, err := nlconn.Listed(func() ([]netlink.Route, error) {
			return k.nl.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			metric := r.Priority
			if family == netlink.FAMILY_V6 && metric == state.DefaultMetric6 {
				metric = 0 // what the kernel makes of none
			}
			found = append(found, state.Route{Prefix: routePrefix(r, family), Device: v.names[r.LinkIndex], Gateway: gatewayOf(r), MTU: r.MTU, Metric: metric})
		}
	}
	return found, nil
}

// routePrefix returns the destination. The default route's may be left out, and
// IPv4's comes in 16 bytes.
func routePrefix(r netlink.Route, family int) netip.Prefix {
	if r.Dst != nil {
		if addr, ok := netip.AddrFromSlice(r.Dst.IP); ok {
			if family == netlink.FAMILY_V4 {
				addr = addr.Unmap()
			}
			ones, _ := r.Dst.Mask.Size()
			return netip.PrefixFrom(addr, ones)
		}
	}
	if family == netlink.FAMILY_V4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

func gatewayOf(r netlink.Route) netip.Addr {
	a, _ := netip.AddrFromSlice(r.Gw)
	return a.Unmap()
}
