package netspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one process found in a namespace.
type Process struct {
	PID     int
	Command string // the command line, words joined by spaces
}

// Processes finds the processes whose network namespace is s, this one
// excepted, by comparing inodes.
func (s *Space) Processes() ([]Process, error) {
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, link := range links {
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() || !s.holds(pid) {
			continue
		}
		found = append(found, Process{PID: pid, Command: commandLine(pid)})
	}
	return found, nil
}

// holds reports whether the process is in the namespace with all its threads: a
// command of the lab that enters only for a moment does so with one, which may be
// its first. Processes may end meanwhile, and a zombie has no namespace: both count
// as elsewhere.
func (s *Space) holds(pid int) bool {
	var here unix.Stat_t
	if unix.Fstat(int(s.handle), &here) != nil {
		return false
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	inside := false
	for _, t := range threads {
		var there unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/task/%s/ns/net", pid, t.Name()), &there) != nil {
			continue // the thread has just ended
		}
		if here.Ino != there.Ino || here.Dev != there.Dev {
			return false
		}
		inside = true
	}
	return inside
}

func commandLine(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
}

// Stop ends every process in the spaces: first by request (SIGTERM), after
// grace by force (SIGKILL). It returns when none is left, or an error that
// names the survivors.
func Stop(ctx context.Context, grace time.Duration, spaces ...*Space) error {
	if err := signalAll(spaces, unix.SIGTERM); err != nil {
		return err
	}
	left, err := waitGone(ctx, grace, spaces)
	if err != nil || len(left) == 0 {
		return err
	}
	// Killing is repeated because a process may start another meanwhile.
	for range 5 {
		if err := signalAll(spaces, unix.SIGKILL); err != nil {
			return err
		}
		if left, err = waitGone(ctx, time.Second, spaces); err != nil || len(left) == 0 {
			return err
		}
	}
	return fmt.Errorf("stop processes: still there after SIGKILL: %v", left)
}

func signalAll(spaces []*Space, sig unix.Signal) error {
	for _, s := range spaces {
		ps, err := s.Processes()
		if err != nil {
			return err
		}
		for _, p := range ps {
			if err := s.signal(p.PID, sig); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("signal process %d (%s): %w", p.PID, p.Command, err)
			}
		}
	}
	return nil
}

// signal uses a pidfd, so that no other process that has got the number meanwhile is
// hit.
func (s *Space) signal(pid int, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !s.holds(pid) {
		return nil
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// waitGone polls until no process is left, the time is over, or ctx ends, and
// returns those still there.
func waitGone(ctx context.Context, limit time.Duration, spaces []*Space) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []Process
		for _, s := range spaces {
			ps, err := s.Processes()
			if err != nil {
				return nil, err
			}
			left = append(left, ps...)
		}
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return left, nil
		case <-tick.C:
		}
	}
}

// Kill ends every process in a space by force.
func Kill(ctx context.Context, s *Space) error {
	var left []Process
	// Killing is repeated because a process may start another meanwhile.
	for range 5 {
		if err := signalAll([]*Space{s}, unix.SIGKILL); err != nil {
			return err
		}
		var err error
		if left, err = waitGone(ctx, time.Second, []*Space{s}); err != nil || len(left) == 0 {
			return err
		}
	}
	return fmt.Errorf("kill processes: still there after SIGKILL: %v", left)
}
