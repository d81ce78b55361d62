package kernel

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// ErrForeignRoute is returned if the host has a route of the same prefix and metric
// that is not weft's; it stays.
var ErrForeignRoute = errors.New("the host has its own route there, which weft never replaces")

// putRoute adds a route, or changes one of weft's. Only this function sets weft's
// routes: it replaces no route of another program or person (NLM_F_EXCL: the kernel
// refuses a second route of one prefix and metric).
func (k *Kernel) putRoute(r *netlink.Route) error {
	err := k.nl.RouteAdd(r)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	family := familyOf(r)
	list, err := k.routesTo(family, r.Dst)
	if err != nil {
		return err
	}
	for _, there := range list {
		if metricOf(family, there.Priority) == metricOf(family, r.Priority) && !isOwn(there.Protocol) {
			return fmt.Errorf("%w: %s; remove that route or give it another metric", ErrForeignRoute, k.describe(there))
		}
	}
	return k.nl.RouteReplace(r)
}

// isOwn reports whether a route's protocol is one of weft's.
func isOwn(p netlink.RouteProtocol) bool {
	return p == RouteProtocol || p == DelegationProtocol || p == SubscriberProtocol
}

// routesTo lists the routes of the main table to exactly one prefix.
func (k *Kernel) routesTo(family int, dst *net.IPNet) ([]netlink.Route, error) {
	list, err := nlconn.Listed(func() ([]netlink.Route, error) {
		return k.nl.RouteListFiltered(family, &netlink.Route{Dst: dst, Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes to %s: %w", dst, err)
	}
	return list, nil
}

func familyOf(r *netlink.Route) int {
	if r.Dst.IP.To4() != nil {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// metricOf returns the metric that the kernel uses for one in a request.
func metricOf(family, metric int) int {
	if family == netlink.FAMILY_V6 && metric == 0 {
		return state.DefaultMetric6
	}
	return metric
}

// describe formats a route as ip route does, as far as it identifies its owner.
func (k *Kernel) describe(r netlink.Route) string {
	text := "default"
	if r.Dst != nil {
		text = r.Dst.String()
	}
	if r.Gw != nil {
		text += " via " + r.Gw.String()
	}
	if l, err := k.nl.LinkByIndex(r.LinkIndex); err == nil {
		text += " dev " + l.Attrs().Name
	}
	return fmt.Sprintf("%s proto %s metric %d", text, r.Protocol, r.Priority)
}
