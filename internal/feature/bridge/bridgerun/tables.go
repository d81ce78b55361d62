// Package bridgerun is the half of bridges that touches the system.
package bridgerun

import (
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/datapath/bridgetable"
	"weft/internal/kernel"
	"weft/internal/runner"
	"weft/internal/state"
)

// Tables are what the nouns of bridges are read from.
type Tables struct {
	bridgetable.Table
	Kernel *kernel.Kernel
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return Tables{Table: bridgetable.Of(d.Datapath), Kernel: d.Kernel} }

// Links lists the devices.
func (t Tables) Links() ([]state.LinkFact, error) { return t.Kernel.Links() }

// Uptime is the time by the clock of the programs.
func (t Tables) Uptime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0 // the clock is always there
	}
	return time.Duration(now.Nano())
}
