// Package paths says where weft keeps its things for one network namespace:
// pins in the bpf file system, and a run directory. Both are named by the
// namespace's cookie, which the kernel never gives out twice, so that routers
// in different namespaces of one host do not meet.
package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/fault"
)

// Dirs is the pair of directories of a network namespace.
type Dirs struct {
	Pins string // in the bpf file system
	Run  string // lock, journal, socket
}

// Socket is the path of the daemon's socket.
func (p Dirs) Socket() string { return filepath.Join(p.Run, "weft.sock") }

// Lock is the path of the daemon's lock.
func (p Dirs) Lock() string { return filepath.Join(p.Run, "lock") }

const (
	bpffs = "/sys/fs/bpf"
	run   = "/run/weft"
)

func isBPF(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
}

// pinRoot returns the bpf file system that outlives the process. `ip netns exec`
// hides /sys behind a new one, and a bpf file system that is mounted there
// would go with the process: then the one is taken that a parent process sees,
// held open for as long as the process lives.
func pinRoot() string {
	if isBPF(bpffs) {
		return bpffs
	}
	for pid := os.Getppid(); pid > 0; pid = parentOf(pid) {
		dir := fmt.Sprintf("/proc/%d/root%s", pid, bpffs)
		if !isBPF(dir) {
			continue
		}
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			return fmt.Sprintf("/proc/self/fd/%d", fd)
		}
	}
	return bpffs
}

// parentOf returns a process's parent, 0 if there is none to be seen.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ := strconv.Atoi(strings.TrimSpace(number))
			return parent
		}
	}
	return 0
}

// Of returns the place of the namespace with a cookie.
func Of(cookie uint64) Dirs {
	name := fmt.Sprint(cookie)
	return Dirs{Pins: filepath.Join(pinRoot(), "weft", name), Run: filepath.Join(run, name)}
}

// Here gives the place of the network namespace that the calling thread is in.
func LocalAddr() (Dirs, error) {
	cookie, err := Cookie()
	if err != nil {
		return Dirs{}, err
	}
	return Of(cookie), nil
}

// Cookie returns the cookie of the network namespace of the calling thread.
func Cookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read cookie of the network namespace: %w", err)
	}
	return cookie, nil
}

// Make creates the directories, and mounts the BPF file system if it is not mounted.
func (p Dirs) Make() error {
	if strings.HasPrefix(p.Pins, bpffs) {
		if err := MountBPF(); err != nil {
			return err
		}
	}
	for _, dir := range []string{p.Pins, p.Run} {
		if err := makeAll(dir); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// makeAll makes a directory and its parents, also while the last router of
// another namespace removes a parent that it finds empty.
func makeAll(dir string) error {
	for attempt := 1; ; attempt++ {
		err := os.MkdirAll(dir, 0o700)
		if !errors.Is(err, fs.ErrNotExist) || attempt == 100 {
			return err
		}
	}
}

// MountBPF makes sure that the bpf file system is mounted at its usual place.
func MountBPF() error {
	if isBPF(bpffs) {
		return nil
	}
	if err := unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount the bpf file system on %s: %w", bpffs, err)
	}
	return nil
}

// Remove takes both directories away, and the one that holds the pins of all
// namespaces if it is empty. /run/weft is systemd's to make and to remove.
func (p Dirs) Remove() error {
	err := os.RemoveAll(p.Pins)
	fault.At(fault.PinsRemoved, p.Pins)
	err = errors.Join(err, os.RemoveAll(p.Run))
	if all := unix.Rmdir(filepath.Dir(p.Pins)); all != nil && all != unix.ENOTEMPTY && all != unix.EEXIST && all != unix.ENOENT {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", filepath.Dir(p.Pins), all))
	}
	return err
}
