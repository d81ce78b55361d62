package kernel

import (
	"github.com/vishvananda/netlink"

	"weft/internal/kernel/nlconn"
)

// routesOf lists the routes that a protocol's number marks.
func (k *Kernel) routesOf(family int, protocol netlink.RouteProtocol) ([]netlink.Route, error) {
	return nlconn.Listed(func() ([]netlink.Route, error) {
		return k.nl.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	})
}

// neighbours lists those of a device, or of all if its index is 0.
func (k *Kernel) neighbours(index, family int) ([]netlink.Neigh, error) {
	return nlconn.Listed(func() ([]netlink.Neigh, error) { return k.nl.NeighList(index, family) })
}
