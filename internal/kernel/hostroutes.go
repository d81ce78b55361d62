package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/state"
)

// hostProtocols are the protocols of routes that administrators, DHCP clients,
// network managers and router advertisements make. Routes of routing daemons may be
// a million and change all the time: no plan depends on them.
var hostProtocols = []byte{unix.RTPROT_BOOT, unix.RTPROT_STATIC, unix.RTPROT_DHCP, unix.RTPROT_RA}

// HostRoutes lists the host's own routes in the main table. The kernel picks them
// out of the table (NETLINK_GET_STRICT_CHK); names are those of the devices.
func (k *Kernel) HostRoutes(ctx context.Context, names map[int]string) (list []state.RouteFact, err error) {
	conn, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range hostProtocols {
			body := nlconn.Head(family, unix.SizeofRtMsg)
			body[4], body[5] = unix.RT_TABLE_MAIN, protocol
			var found []state.RouteFact
			err := conn.Whole(ctx, unix.RTM_GETROUTE, body, func() { found = nil }, func(_ uint16, b []byte) error {
				var r state.KernelRoute
				if err := rtnetlink.ParseRoute(b, &r); err != nil || r.Cached || r.Table != unix.RT_TABLE_MAIN || r.Protocol != protocol {
					return nil // a kernel that does not pick sends all
				}
				for _, h := range r.Hops {
					found = append(found, state.RouteFact{Prefix: r.Prefix, Gateway: h.Gateway, Device: names[h.Device], Metric: int(r.Metric), Protocol: protocol})
				}
				return nil
			})
			if errors.Is(err, unix.ENOENT) {
				continue // a namespace without addresses has no main table
			}
			if err != nil {
				return nil, fmt.Errorf("list the host's routes: %w", err)
			}
			list = append(list, found...)
		}
	}
	slices.SortFunc(list, func(a, b state.RouteFact) int {
		if c := a.Prefix.Compare(b.Prefix); c != 0 {
			return c
		}
		return a.Metric - b.Metric
	})
	return list, nil
}
