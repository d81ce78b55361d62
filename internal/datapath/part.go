package datapath

import (
	"context"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// Part is the declaration of a package of typed tables; unused fields are nil.
type Part struct {
	Kinds []Kind // of the objects that live in its maps
	// Groups are the maps whose size depends on weft.toml.
	Groups []Group
	// Entries returns the number of entries of maps, by name.
	Entries func(state.Tables) map[string]uint32
	// Constants returns values of the programs' load-time constants, by name; a
	// program without one ignores it.
	Constants func(state.Tables) map[string]uint32
	// Sizes sets the table sizes from the number of entries of an existing map, by
	// name.
	Sizes map[string]func(t *state.Tables, entries int)
	// Fill writes the initial content of a new map, by name.
	Fill map[string]func(m *ebpf.Map, spec *ebpf.MapSpec) error
	// Load changes a program before it is loaded, according to the maps that are there.
	Load func(maps map[string]*ebpf.Map, spec *ebpf.CollectionSpec) error
	// Opened is called when all maps exist, Resized when some are new.
	Opened, Resized func(d *Datapath) error
	// Together applies steps at the head of a series concurrently, and returns their
	// number; 0: it does not handle these steps.
	Together func(ctx context.Context, d *Datapath, steps []state.Step) (done int, err error)
}

// Group is a set of maps that refer to each other: they are created and replaced
// together.
type Group struct {
	Program string // one that has them all
	Maps    []string
}
