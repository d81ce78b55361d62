package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runAgent sets up the guest by its spec, reports that it is ready and then runs the
// commands that come over the control line.
func runAgent(planPath string) error {
	plan, err := readGuestPlan(planPath)
	if err != nil {
		return err
	}
	if plan.Spec.Init == Systemd {
		tell(plan, message{Stage: "systemd has started its basic units and boots on"})
	}
	if err := prepare(plan.Spec); err != nil {
		report(plan, err)
		return err
	}
	line, err := openLine(plan.Control)
	if err != nil {
		return err
	}
	go keepShell(plan.Console, plan.Spec.Name)
	a := &agent{line: line, out: json.NewEncoder(line), running: map[uint64]*running{}}
	a.say(message{Ready: true})
	return a.serve()
}

func prepare(s Spec) error {
	if s.Init == Systemd {
		return prepareSystemd(s)
	}
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if s.Root != HostRoot {
		if err := writeFiles("/", s.Files); err != nil {
			return err
		}
	}
	if err := setUpNetwork(s); err != nil {
		return err
	}
	return runScript(s)
}

// prepareSystemd waits for the boot of a guest whose network is its own affair.
func prepareSystemd(s Spec) error {
	if err := awaitSystemd(); err != nil {
		return err
	}
	if _, err := os.Stat(scriptDone); err == nil {
		return nil
	}
	if err := runScript(s); err != nil {
		return err
	}
	return writeFiles("/", map[string][]byte{scriptDone: nil})
}

func runScript(s Spec) error {
	if s.Script == "" {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-e", "-c", s.Script)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run the script: %w: %s", err, output)
	}
	return nil
}

type agent struct {
	line io.Reader

	mu      sync.Mutex
	out     *json.Encoder
	running map[uint64]*running
}

type running struct {
	cancel context.CancelFunc
	input  chan []byte // one piece at a time: its sender waits for Took
}

func (a *agent) say(m message) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Encode(m)
}

func (a *agent) serve() error {
	in := json.NewDecoder(a.line)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			return fmt.Errorf("read the control line: %w", err)
		}
		switch {
		case m.Run != nil:
			ctx, cancel := context.WithCancel(context.Background())
			r := &running{cancel: cancel, input: make(chan []byte, 2)}
			a.mu.Lock()
			a.running[m.ID] = r
			a.mu.Unlock()
			go a.run(ctx, m.ID, m.Run, r.input)
		case m.Kill:
			a.forget(m.ID)
		default:
			a.feed(m)
		}
	}
}

// feed queues input for a command. The queue has room for the one piece that may be
// in flight and for the end; more violates the protocol and is dropped.
func (a *agent) feed(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.running[m.ID]
	if !ok {
		return
	}
	if m.EOF {
		close(r.input)
		r.input = nil
		return
	}
	select {
	case r.input <- m.In:
	default:
	}
}

func (a *agent) forget(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.running[id]; ok {
		r.cancel()
		delete(a.running, id)
	}
}

// keepShell keeps a shell on the console, a new one when it ends.
func keepShell(console, name string) {
	for {
		if err := shellOn(console, name); err != nil {
			time.Sleep(time.Second) // a shell that does not start is tried again
		}
	}
}

func shellOn(console, name string) error {
	tty, err := os.OpenFile(console, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	cmd := exec.Command("/bin/sh", "-i")
	if bash, err := exec.LookPath("bash"); err == nil {
		cmd = exec.Command(bash, "--norc", "-i")
	}
	cmd.Dir = "/root"
	cmd.Env = append(guestEnvironment(), "PS1=["+name+"] # ")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // its own affair
	}
	return err
}

// openLine opens a tty as a plain line of bytes.
func openLine(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := makeRaw(int(f.Fd())); err != nil {
		f.Close()
		return nil, fmt.Errorf("make %s raw: %w", path, err)
	}
	return f, nil
}

// makeRaw does what cfmakeraw(3) does and returns what was before.
func makeRaw(fd int) (before *unix.Termios, err error) {
	before, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	return before, unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
}

// drain waits until a tty has sent what was written to it.
func drain(f *os.File) { unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1) }
