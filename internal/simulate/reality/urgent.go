package reality

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// urgent makes all threads of the program run before all ordinary ones, so that
// other work on the machine disturbs links and transfers little; ordinary undoes
// it. It is all threads, because those of the links must not wait for others of
// the Go runtime. Threads begun later inherit it.
func urgent() error {
	return eachThread(&unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 10})
}

func ordinary() error { return eachThread(&unix.SchedAttr{Policy: unix.SCHED_NORMAL}) }

func eachThread(a *unix.SchedAttr) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list the program's threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetAttr(id, a, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("set the scheduling policy of a thread: %w", err)
		}
	}
	return nil
}
