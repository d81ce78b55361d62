// Package runner says what the effectful half of a feature is.
package runner

import (
	"context"
	"log/slog"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/kernel"
	"weft/internal/paths"
	"weft/internal/state"
)

// Doors are the ways to the machine that a runner may use.
type Doors struct {
	Log      *slog.Logger
	Kernel   *kernel.Kernel
	Datapath *datapath.Datapath
	Paths    paths.Dirs
	// Replan asks for another round: a fact has changed that only the runner
	// knows. It never blocks.
	Replan func()
}

// Round is what is in force after a round of planning.
type Round struct {
	File    *config.File
	Facts   state.Facts
	Changed bool // something in the kernel or the datapath is not what it was
}

// Runner is what a feature does while the router runs. The daemon calls its
// methods one after the other, in the order of the features.
type Runner interface {
	// Apply takes over what a round has put in force: it starts, changes and
	// stops tasks. It never waits for the network or a process. An error means
	// that the feature is degraded; it is tried again with the next round.
	Apply(ctx context.Context, r Round) error
	// Status says how the feature is doing: nothing while it is not in use.
	Status(ctx context.Context) []state.Health
	// Close stops the tasks and waits for them. What forwards stays.
	Close() error
}

// Preparer is a runner that must let go of tables before a round replaces them.
type Preparer interface{ Prepare(next *config.File) }

// Readier is a runner that has not done all that READY promises when Apply
// returns. The channel is closed when it has; nil: nothing is awaited. Awaited
// says what it waits for.
type Readier interface {
	Ready() <-chan struct{}
	Awaited() string
}
