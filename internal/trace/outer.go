package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/state"
)

// Request is what the outer process hands to the inner one.
type Request struct {
	File  string // path of weft.toml, for messages
	Text  []byte // of weft.toml
	In    string // name or device of an interface
	Via   Via
	JSON  bool
	Write bool // the inner process has a file for the packets that leave
	Host  map[string]HostDevice
	// Access are sessions of subscribers that the router has, and Logins whose
	// they are, where that is known.
	LNS    state.LNSTables
	Logins map[uint16]string
}

// Files of a trace. Write may be nil.
type Files struct {
	Read   *os.File
	Write  *os.File
	Report *os.File
	Errors *os.File
}

// Descriptors of the inner process, behind the standard three.
const (
	requestFD = 3
	writeFD   = 4
)

// FindInterface returns the [interface.NAME] that in names, by its NAME or by
// its device, and a function that gives what reports call the others: the same
// kind of name that in is.
func FindInterface(f *config.File, in string) (name string, call func(string) string, err error) {
	if f.Interface(in) != nil {
		return in, func(n string) string { return n }, nil
	}
	var known []string
	for _, n := range f.Names("interface") {
		i := f.Interface(n)
		if i.Device == in {
			return n, func(n string) string { return f.Interface(n).Device }, nil
		}
		known = append(known, n)
	}
	remedy := config.Suggest(in, known)
	if len(known) == 0 {
		remedy = "the file has no [interface.NAME] at all"
	}
	return "", nil, fmt.Errorf("there is no [interface.%s], and no interface with the device %q (%s)", in, in, remedy)
}

// Outer starts this program again with the arguments args, in namespaces of its own,
// and waits until it has traced everything. args must lead to Inner. It returns an
// *exec.ExitError if the inner process has reported the error itself.
func Outer(ctx context.Context, args []string, request Request, files Files) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer in.Close()
	defer out.Close()
	request.Write = files.Write != nil
	c := exec.CommandContext(ctx, "/proc/self/exe", args...)
	c.Stdin, c.Stdout, c.Stderr = files.Read, files.Report, files.Errors
	c.ExtraFiles = []*os.File{in}
	if request.Write {
		c.ExtraFiles = append(c.ExtraFiles, files.Write)
	}
	// Pdeathsig: if this process is killed, so is the inner one, and with it its
	// namespaces and all that is in them.
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	// The signal comes when the thread dies that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := startOnOneCPU(c); err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(request); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("hand over the request: %w", err), c.Wait())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return c.Wait()
}

// startOnOneCPU starts c on one of the CPUs that this process may use, for
// good. On one CPU the kernel's queues are strictly first in, first out, and
// what a packet causes comes in one order. Traces that run at the same time
// spread by their process ids.
func startOnOneCPU(c *exec.Cmd) error {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read CPU affinity: %w", err)
	}
	for cpu, turn := 0, os.Getpid()%before.Count(); ; cpu++ {
		if !before.IsSet(cpu) {
			continue
		}
		if turn == 0 {
			one.Set(cpu)
			break
		}
		turn--
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("set CPU affinity: %w", err)
	}
	started := c.Start()
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		return errors.Join(started, fmt.Errorf("set CPU affinity back: %w", err))
	}
	if started != nil {
		return fmt.Errorf("start the process with namespaces of its own: %w", started)
	}
	return nil
}

func readRequest(r io.Reader) (Request, error) {
	var request Request
	if err := json.NewDecoder(r).Decode(&request); err != nil {
		return request, fmt.Errorf("read request: %w", err)
	}
	return request, nil
}
