package statefile

import "golang.org/x/sys/unix"

// Boottime is the time since the machine was started, in nanoseconds, by the clock
// that cannot be set. Files that a reboot removes keep deadlines by it.
func Boottime() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // cannot fail: the clock is there, the pointer is good
	return now.Nano()
}
