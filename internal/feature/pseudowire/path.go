package pseudowire

import "weft/internal/state"

// FindWay makes of the kernel's route to the other end, nil if it has none, and
// the device that it leads through, or loopback, the way there. ask is not nil where the kernel has to be asked to find, or to
// confirm, a link address.
func FindWay(endpoints state.Endpoints, route *state.KernelRoute, dev state.LinkFact, neighbours []state.KernelNeighbour) (way state.PseudowirePath, ask *state.KernelNeighbour) {
	if route == nil {
		return way, nil
	}
	if route.Type == state.RouteLocal {
		return state.PseudowirePath{Device: dev.Index, MTU: dev.MTU, Gateway: endpoints.Remote, Resolved: true}, nil
	}
	if route.Type != state.RouteUnicast || len(route.Hops) == 0 || route.Hops[0].Encap {
		return way, nil
	}
	// of several ways one is taken: a tunnel's packets may not overtake each other
	hop := route.Hops[0]
	if dev.Index == 0 || !dev.Up {
		return way, nil
	}
	way = state.PseudowirePath{Device: dev.Index, MTU: dev.MTU, Gateway: hop.Gateway, Src: dev.MAC, XDP: dev.XDPTarget}
	if route.MTU != 0 {
		way.MTU = min(way.MTU, int(route.MTU))
	}
	if !way.Gateway.IsValid() {
		way.Gateway = endpoints.Remote
	}
	if dev.MAC == [6]byte{} { // no Ethernet, and no link addresses
		way.Resolved = true
		return way, nil
	}
	n := state.KernelNeighbour{Device: dev.Index, Addr: way.Gateway}
	for _, known := range neighbours {
		if known.Device == n.Device && known.Addr == n.Addr && known.State.Usable() {
			way.Dst, way.Resolved = known.MAC, true
			if known.State&(state.NeighbourStale) == 0 {
				return way, nil
			}
			n.MAC, n.State = known.MAC, known.State
		}
	}
	return way, &n
}
