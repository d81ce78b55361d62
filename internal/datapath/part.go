package datapath

import (
	"context"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// Part is what a package of typed tables declares to the core; what it has no
// need of is nil.
type Part struct {
	Kinds []Kind // of the objects that live in its maps
	// Groups are those of its maps that grow with what weft.toml wants.
	Groups []Group
	// Entries gives how many entries maps have, by their names.
	Entries func(state.Tables) map[string]uint32
	// Constants gives values of programs' constants, by their names, for those
	// programs that have them.
	Constants func(state.Tables) map[string]uint32
	// Sizes notes how many entries there are in a map, by its name.
	Sizes map[string]func(t *state.Tables, entries int)
	// Fill writes what a new map begins with, by its name.
	Fill map[string]func(m *ebpf.Map, spec *ebpf.MapSpec) error
	// Load changes a program before it is loaded, according to the maps that are there.
	Load func(maps map[string]*ebpf.Map, spec *ebpf.CollectionSpec) error
	// Opened is called when the maps are there, Resized when some are new.
	Opened, Resized func(d *Datapath) error
	// Together carries out steps at the head of a series side by side, and says how
	// many; 0: these steps are not for it.
	Together func(ctx context.Context, d *Datapath, steps []state.Step) (done int, err error)
}

// Group is maps that speak of each other: they are made and replaced together.
type Group struct {
	Program string // one that has them all
	Maps    []string
}
