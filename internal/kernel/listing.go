package kernel

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// listTries is how often something is listed that changes meanwhile.
const listTries = 10

// listed lists anew while the kernel says that what it lists has changed in
// between (NLM_F_DUMP_INTR): something that was there all the time may be
// missing. What changes ever so often is taken as it is; news of it follow.
func listed[T any](list func() (T, error)) (all T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, nil
}

// routesOf lists the routes that a protocol's number marks.
func (k *Kernel) routesOf(family int, protocol netlink.RouteProtocol) ([]netlink.Route, error) {
	return listed(func() ([]netlink.Route, error) {
		return k.nl.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	})
}

// neighbours lists those of a device, or of all if its index is 0.
func (k *Kernel) neighbours(index, family int) ([]netlink.Neigh, error) {
	return listed(func() ([]netlink.Neigh, error) { return k.nl.NeighList(index, family) })
}
