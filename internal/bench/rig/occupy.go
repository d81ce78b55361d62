package rig

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Occupy uses a CPU for a part of each period, with priority over the threads of
// Receive: these then receive all packets of that time at once, as on a slow router
// or a device with interrupt moderation, and need not be woken for each.
func Occupy(cpu int, busy, period time.Duration) (stop func() error, err error) {
	var end atomic.Bool
	begun, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := first(cpu); err != nil {
			begun <- err
			return
		}
		begun <- nil
		done <- occupy(&end, busy, period)
	}()
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("keep CPU %d busy: %w", cpu, err)
	}
	return func() error {
		end.Store(true)
		return <-done
	}, nil
}

// first returns the thread priority on a CPU over those that receive there.
func first(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: receivePriority + 1}, 0)
}

func occupy(end *atomic.Bool, busy, period time.Duration) error {
	for next := time.Now(); !end.Load(); {
		for start := time.Now(); time.Since(start) < busy; {
		}
		next = next.Add(period)
		rest := time.Until(next)
		if rest < 0 { // something was before it: what it missed is not made up for
			next, rest = time.Now(), period-busy
		}
		t := unix.NsecToTimespec(rest.Nanoseconds())
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil); err != nil && err != unix.EINTR {
			return fmt.Errorf("wait: %w", err)
		}
	}
	return nil
}
