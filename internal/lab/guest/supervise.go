package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Roles in which this binary is started, the first argument of Main.
const (
	roleSupervise = "supervise" // on the host, beside the kernel
	roleInit      = "init"      // PID 1 in the guest
	roleAgent     = "agent"     // its child, which does the work
	roleExec      = "exec"      // on the host: runs a command in a guest
	roleAttach    = "attach"    // on the host: a terminal on a guest's console
)

// Main runs one of the roles of this binary for a guest and returns its exit status.
// args are those after Spec.Self: a role and a file or directory, and the command to
// execute; see InGuest.
func Main(args []string) int {
	if len(args) < 2 || len(args) > 2 != (args[0] == roleExec) {
		fmt.Fprintln(os.Stderr, "guest: this command is for weft's own use: ROLE PATH, or exec DIR COMMAND...")
		return 2
	}
	var err error
	switch args[0] {
	case roleExec:
		var exit int
		if exit, err = execute(args[1], args[2:]); err == nil {
			return exit
		}
	case roleAttach:
		err = attach(args[1])
	case roleSupervise:
		err = supervise(args[1])
	case roleInit:
		err = initGuest(args[1])
	case roleAgent:
		err = runAgent(args[1])
	default:
		err = fmt.Errorf("role %q is not known", args[0])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "guest %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// File descriptors that Start hands to the supervisor, beside the log as its
// standard output and error.
const (
	consoleListenerFD = 3
	controlListenerFD = 4
)

// supervise runs the guest's kernel until it ends, as PID 1 of a PID namespace: to
// kill it kills every process of the guest.
func supervise(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, launchFile))
	if err != nil {
		return err
	}
	var plan launchPlan
	if err := json.Unmarshal(content, &plan); err != nil {
		return fmt.Errorf("read %s: %w", launchFile, err)
	}
	consoles, err := listenerFrom(consoleListenerFD)
	if err != nil {
		return err
	}
	controls, err := listenerFrom(controlListenerFD)
	if err != nil {
		return err
	}
	if err := sandbox(filepath.Join(dir, scratchDir), plan.Scratch); err != nil {
		return err
	}
	if plan.Disk > 0 {
		if err := makeDisk(filepath.Join(dir, scratchDir, diskFile), plan.Disk); err != nil {
			return err
		}
	}
	s := supervisor{dir: dir, plan: plan, screen: newScreen(os.Stdout), line: newSwitchboard()}
	go accept(consoles, s.screen.attach)
	go accept(controls, s.line.serve)
	for {
		how, err := s.run()
		if err != nil {
			return err
		}
		if !s.line.restarts() {
			s.line.died(how)
			return nil
		}
	}
}

// supervisor runs a guest's kernel, again where the guest restarts.
type supervisor struct {
	dir    string
	plan   launchPlan
	screen *screen
	line   *switchboard
}

// run starts the kernel and returns how it has ended.
func (s *supervisor) run() (how string, err error) {
	console, consoleEnd, err := socketPair("console")
	if err != nil {
		return "", err
	}
	control, controlEnd, err := socketPair("control")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(s.plan.Argv[0], s.plan.Argv[1:]...)
	plan := s.plan
	cmd.Env = plan.Env
	if plan.Wrapped {
		// on the scratch, because the guest's directory may lie on a file system without execution
		wrapper := filepath.Join(s.dir, scratchDir, wrapperFile)
		if err := os.WriteFile(wrapper, ptraceWrapper, 0o500); err != nil {
			return "", fmt.Errorf("write the wrapper of ptrace: %w", err)
		}
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+wrapper)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{consoleEnd, controlEnd}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start the kernel: %w", err)
	}
	consoleEnd.Close()
	controlEnd.Close()
	defer console.Close()
	defer control.Close()
	s.screen.connect(console)
	s.line.connect(control, cmd.Process.Kill)
	err = cmd.Wait()
	return howItEnded(cmd.ProcessState, err), nil
}

// makeDisk makes an empty disk of a size in MiB.
func makeDisk(path string, size int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	return errors.Join(f.Truncate(int64(size)<<20), f.Close())
}

func howItEnded(state *os.ProcessState, err error) string {
	if state != nil {
		return "the kernel's process ended: " + state.String()
	}
	return "the kernel's process ended: " + err.Error()
}

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the supervisor is ending
		}
		go serve(conn)
	}
}

// sandbox makes every file of the host read-only for this process and its
// children, whatever a guest's kernel may try through hostfs, except a tmpfs of
// the given size (MiB) for the guest's memory. Device nodes still work.
func sandbox(scratch string, size int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return fmt.Errorf("make the host's files read-only: %w", err)
	}
	if size == 0 {
		return nil
	}
	options := "mode=0700,size=" + strconv.Itoa(size) + "m"
	if err := unix.Mount("weft-guest", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", scratch, err)
	}
	return nil
}

func socketPair(name string) (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the %s line: %w", name, err)
	}
	near := os.NewFile(uintptr(fds[0]), name)
	defer near.Close()
	ours, err = net.FileConn(near)
	return ours, os.NewFile(uintptr(fds[1]), name), err
}

func listenerFrom(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d of the supervisor: %w", fd, err)
	}
	return l, nil
}

// lastLines returns the end of a file for an error message.
func lastLines(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return ""
		}
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(content), "\r", "")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
