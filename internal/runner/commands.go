package runner

import (
	"context"
	"errors"
)

// ErrNoDaemon is the answer while weft run is not running.
var ErrNoDaemon = errors.New("weft run is not running")

// Commands is what the commands of a feature may use. They run in a process of their own,
// beside weft run.
type Commands struct {
	// Root fails unless the user is root.
	Root func(command string) error
	// Open opens what weft has in this network namespace; done closes it. It fails if there
	// is nothing.
	Open func() (d Doors, done func() error, err error)
	// Show reads the rows of a noun from weft run, or gives ErrNoDaemon.
	Show func(ctx context.Context, d Doors, noun string, into any) error
}
