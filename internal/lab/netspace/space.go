// Package netspace makes, enters, searches and deletes named network
// namespaces, and starts processes inside them. Only the network namespace
// changes: the file system, and with it /sys/fs/bpf, stays the host's.
package netspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Dir is where named namespaces are mounted; `ip netns` looks there too.
const Dir = "/run/netns"

// Space is an open handle on a named network namespace.
type Space struct {
	Name   string
	handle netns.NsHandle
}

// shareDir makes Dir a mount point with shared propagation, under the lock that ip-netns(8)
// takes for it, too. Otherwise the next `ip netns add` on the machine would do it, over the
// namespaces that are mounted there by then: their names could not be removed any more.
// Where mounting is not allowed, mounting the namespace says so.
func shareDir() error {
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of network namespaces: %w", err)
	}
	dir, err := os.Open(Dir)
	if err != nil {
		return fmt.Errorf("open the directory of network namespaces: %w", err)
	}
	defer dir.Close() // and with it the lock
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", Dir, err)
	}
	if err := unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, ""); !errors.Is(err, unix.EINVAL) {
		return nil
	}
	_ = errors.Join(unix.Mount(Dir, Dir, "none", unix.MS_BIND|unix.MS_REC, ""), unix.Mount("", Dir, "none", unix.MS_SHARED|unix.MS_REC, ""))
	return nil
}

// Create makes a namespace. A name that is taken is an error that wraps
// fs.ErrExist.
func Create(name string) (*Space, error) {
	if err := shareDir(); err != nil {
		return nil, err
	}
	var s *Space
	err := onThread(func() error {
		// NewNamed leaves the thread in the new namespace.
		handle, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		s = &Space{Name: name, handle: handle}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create network namespace %s: %w", name, err)
	}
	return s, nil
}

// Open returns a handle on an existing namespace. A name without a namespace is
// an error that wraps fs.ErrNotExist.
func Open(name string) (*Space, error) {
	handle, err := netns.GetFromName(name)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	return &Space{Name: name, handle: handle}, nil
}

// List returns the names that begin with prefix, in order. They may include
// marks without a namespace behind them, left by a crash in mid-creation.
func List(prefix string) ([]string, error) {
	entries, err := os.ReadDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Delete removes the name; the namespace itself ends with its last process and
// handle. A missing name is no error.
func Delete(name string) error {
	path := filepath.Join(Dir, name)
	var err error
	for range 50 {
		if err = unmountAndRemove(path); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond) // another process's `ip netns` has mounted it meanwhile
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete network namespace %s: %w", name, err)
	}
	return nil
}

// unmountAndRemove takes a namespace's file away. More than one mount can lie on it
// after `ip netns` has remounted the directory; EINVAL says that none is left.
func unmountAndRemove(path string) error {
	for range 8 {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			break
		}
	}
	return os.Remove(path)
}

// Close closes the handle; the namespace stays.
func (s *Space) Close() error { return s.handle.Close() }

// FD is the descriptor of the namespace, good until Close.
func (s *Space) FD() int { return int(s.handle) }

// Netlink opens a route netlink socket inside the namespace.
func (s *Space) Netlink() (*netlink.Handle, error) {
	h, err := netlink.NewHandleAt(s.handle, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", s.Name, err)
	}
	return h, nil
}

// Do runs f on a thread that is inside the namespace. What f opens stays in
// the namespace; goroutines that f starts do not.
func (s *Space) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(s.handle); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", s.Name, err)
		}
		return f()
	})
}

// Start starts cmd inside the namespace, as the leader of a session of its own
// so that no terminal signal meant for another reaches it. No descriptor but
// those of cmd reaches it either, not even those that this process inherited.
func (s *Space) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	}
	if err := CloseOnExec(); err != nil {
		return err
	}
	return s.Do(cmd.Start)
}

// CloseOnExec keeps all descriptors but the standard three from processes that are
// started later. Go opens its own so; inherited ones, a lock file's for example, are
// not.
func CloseOnExec() error {
	if err := unix.CloseRange(3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark inherited descriptors close-on-exec: %w", err)
	}
	return nil
}

// Cookie is the kernel's number of the namespace, constant while the machine runs
// (SO_NETNS_COOKIE, socket(7)).
func (s *Space) Cookie() (uint64, error) {
	var cookie uint64
	err := s.Do(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read cookie of network namespace %s: %w", s.Name, err)
	}
	return cookie, nil
}

// onThread runs f on a locked thread and restores its namespace. A thread whose
// namespace cannot be restored is abandoned with its goroutine.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer home.Close()
		err = f()
		if back := netns.Set(home); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
