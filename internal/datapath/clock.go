package datapath

import (
	"time"

	"golang.org/x/sys/unix"
)

// Tick is the unit of time of bindings, sessions and flows: 2^26 ns of the monotonic
// clock.
const Tick = time.Duration(1 << nat64TickShift)

// NowTicks is the time of the programs' clock in ticks, accurate to a tick.
func NowTicks() uint32 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint32(t.Nano() >> nat64TickShift)
}
