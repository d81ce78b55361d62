package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/store/statefile"
)

// lock prevents a second daemon in the namespace. The kernel releases the lock when
// the process ends, however it ends.
func lock(path string) (*os.File, error) {
	if err := statefile.Regular(path); err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // close-on-exec: no child inherits it
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, _ := os.ReadFile(path)
		f.Close()
		return nil, fmt.Errorf("another weft run controls this network namespace (process %s); stop it first, or send it SIGHUP to reload", strings.TrimSpace(string(pid)))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return f, nil
}
