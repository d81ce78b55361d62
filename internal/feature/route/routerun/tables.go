// Package routerun is the half of routing that touches the system: it mirrors the kernel's route tables.
package routerun

import (
	"context"
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/datapath/fibtable"
	"weft/internal/feature/route"
	"weft/internal/kernel"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/runner"
	"weft/internal/state"
)

// Tables are what the nouns of routes are read from.
type Tables struct {
	Datapath *datapath.Datapath
	Kernel   *kernel.Kernel
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Datapath: d.Datapath, Kernel: d.Kernel} }

// View opens the tables that are in use.
func (t Tables) View() (route.View, error) { return fibtable.Of(t.Datapath).ViewRoutes() }

// Matcher opens the kernel's own lookup.
func (t Tables) Matcher() (route.Matcher, error) { return rtnetlink.OpenMatcher() }

// Prefixes lists the kernel's routes.
func (t Tables) Prefixes(ctx context.Context) ([]netip.Prefix, error) { return rtnetlink.Prefixes(ctx) }

// Neighbours lists the kernel's neighbours.
func (t Tables) Neighbours(ctx context.Context) ([]state.KernelNeighbour, error) {
	return rtnetlink.Neighbours(ctx)
}

// Links lists the devices.
func (t Tables) Links() ([]state.LinkFact, error) { return t.Kernel.Links() }

// DeviceName returns the name of a device by its index.
func (t Tables) DeviceName(index int) string { return datapath.DeviceName(index) }
