package rig

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	calmLimit  = 30 * time.Second
	calmLook   = 250 * time.Millisecond
	calmMostly = 0.05 // of all CPUs
)

// Calm waits until the CPUs are nearly idle: the kernel removes a namespace in the
// background, and with it a million tracked connections, which would count against
// the next measurement. On a busy machine it waits until a limit, no longer.
func Calm(ctx context.Context) error {
	end := time.Now().Add(calmLimit)
	for time.Now().Before(end) {
		busy, all, err := cpuTime()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calmLook):
		}
		busyNow, allNow, err := cpuTime()
		if err != nil {
			return err
		}
		if allNow > all && float64(busyNow-busy) < calmMostly*float64(allNow-all) {
			return nil
		}
	}
	return nil
}

// cpuTime is how long all CPUs have been busy, and their total time, in ticks
// (proc(5), /proc/stat).
func cpuTime() (busy, all uint64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseCPUTime(line)
}

// parseCPUTime reads "cpu user nice system idle iowait irq softirq steal ...".
func parseCPUTime(line string) (busy, all uint64, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("read /proc/stat: its first line is %q", line)
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		all += n
		if i != 3 && i != 4 { // idle, iowait
			busy += n
		}
	}
	return busy, all, nil
}
