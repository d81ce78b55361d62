package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Machine is a running guest, seen from the host.
type Machine struct {
	dir  string
	conn net.Conn
	pid  int // the supervisor's

	progress func(stage string)
	done     chan struct{} // closed when the guest is gone

	mu    sync.Mutex
	ready chan struct{} // closed when the agent said so, at the boot under way or done last
	stage string
	out   *json.Encoder
	calls map[uint64]*pending
	last  uint64
	fault string // why it is gone, or never became ready
}

type pending struct {
	Command
	took chan struct{}
	end  chan message
}

// Command is a command to run in a guest. Its input should be small: it is sent in
// steps of a kilobyte, each acknowledged.
type Command struct {
	Argv           []string
	Stdin          io.Reader // nil = at its end
	Stdout, Stderr io.Writer // must not block for long: all commands of a Machine share a line
}

// Open finds the guest of a directory that Start made, possibly in another process,
// and waits until it is ready.
func Open(ctx context.Context, dir string) (*Machine, error) {
	return open(ctx, dir, nil)
}

func open(ctx context.Context, dir string, progress func(stage string)) (*Machine, error) {
	content, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pidFile, err)
	}
	conn, err := net.Dial("unix", filepath.Join(dir, controlSocket))
	if err != nil {
		return nil, err
	}
	m := &Machine{
		dir: dir, conn: conn, pid: pid, out: json.NewEncoder(conn), calls: map[uint64]*pending{},
		ready: make(chan struct{}), done: make(chan struct{}), progress: progress,
	}
	go m.listen()
	if err := m.await(ctx, m.ready); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// await returns when a boot is done.
func (m *Machine) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-m.done:
		return m.Err()
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		what := "wait for the guest to become ready"
		if m.stage != "" {
			what += " (it said last: " + m.stage + ")"
		}
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// Restart starts the guest again and returns when it is ready. A command in the
// guest does it, like systemctl reboot, which only guests with Systemd may do; with
// none the power is cut. Only the files of a guest with HostRoot are still there.
func (m *Machine) Restart(ctx context.Context, argv ...string) error {
	m.mu.Lock()
	next := make(chan struct{})
	m.ready = next
	m.mu.Unlock()
	if len(argv) == 0 {
		if err := m.say(message{Reset: true}); err != nil {
			return errors.Join(err, m.Err())
		}
		return m.await(ctx, next)
	}
	output, exit, err := m.Exec(ctx, argv...)
	switch {
	case err != nil && !errors.Is(err, errRestarts):
		return err
	case err == nil && exit != 0:
		return fmt.Errorf("%s in the guest ends with status %d: %s", argv[0], exit, output)
	}
	return m.await(ctx, next)
}

// errRestarts is the error of a command whose guest has restarted.
var errRestarts = errors.New(restartsNow)

func (m *Machine) listen() {
	defer close(m.done)
	in := json.NewDecoder(m.conn)
	for {
		var msg message
		if err := in.Decode(&msg); err != nil {
			m.end("the supervisor is gone")
			return
		}
		switch {
		case msg.Died != "":
			m.end(msg.Died)
			return
		case msg.ID != 0:
			m.answer(msg)
		case msg.Error != "":
			m.end("in the guest: " + msg.Error)
			return
		case msg.Stage != "":
			m.report(msg.Stage)
		case msg.Ready:
			m.becomeReady()
		}
	}
}

// report passes on what the guest does until it is ready.
func (m *Machine) report(stage string) {
	m.mu.Lock()
	m.stage = stage
	m.mu.Unlock()
	if m.progress != nil {
		m.progress(stage)
	}
}

// becomeReady ends the boot under way. Another client may have restarted the guest.
func (m *Machine) becomeReady() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ready:
	default:
		close(m.ready)
	}
}

func (m *Machine) answer(msg message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.calls[msg.ID]
	if !ok {
		return
	}
	if len(msg.Out) > 0 {
		p.Stdout.Write(msg.Out)
	}
	if len(msg.Err) > 0 {
		p.Stderr.Write(msg.Err)
	}
	if msg.Took {
		p.took <- struct{}{} // has room for the one that can be under way
	}
	if msg.Exit != nil || msg.Error != "" {
		delete(m.calls, msg.ID)
		p.end <- msg
	}
}

func (m *Machine) end(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = why
}

// Done is closed when the guest is gone, or when Start's or Open's view of it
// was closed.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err is the reason why the guest has ended; nil while it runs.
func (m *Machine) Err() error {
	select {
	case <-m.done:
		m.mu.Lock()
		defer m.mu.Unlock()
		return errors.New(m.fault)
	default:
		return nil
	}
}

// Exec runs a command in the guest and returns what it printed on both its
// outputs and its exit status; see Run. What came first on one output is not
// known to the other: their order is not kept.
func (m *Machine) Exec(ctx context.Context, argv ...string) (output []byte, exit int, err error) {
	var buf bytes.Buffer
	exit, err = m.Run(ctx, Command{Argv: argv, Stdout: &buf, Stderr: &buf})
	return buf.Bytes(), exit, err
}

// Run runs a command in the guest and returns its exit status, 128+n after
// signal n. The error is for commands that could not be run to their end. When
// ctx ends first the command and its process group are killed. A command's
// output ends with it, even if it left something in the background.
func (m *Machine) Run(ctx context.Context, c Command) (exit int, err error) {
	if len(c.Argv) == 0 {
		return -1, errors.New("run nothing in a guest")
	}
	exit, err = m.run(ctx, c)
	if err != nil {
		err = fmt.Errorf("run %s in the guest: %w", c.Argv[0], err)
	}
	return exit, err
}

func (m *Machine) run(ctx context.Context, c Command) (exit int, err error) {
	p := &pending{Command: c, took: make(chan struct{}, 1), end: make(chan message, 1)}
	m.mu.Lock()
	m.last++
	id := m.last
	m.calls[id] = p
	m.mu.Unlock()
	if err := m.say(message{ID: id, Run: c.Argv}); err != nil {
		return -1, errors.Join(err, m.Err())
	}
	ended := make(chan struct{})
	defer close(ended)
	go m.feed(id, p, ended)
	select {
	case msg := <-p.end:
		switch msg.Error {
		case "":
			return *msg.Exit, nil
		case restartsNow:
			return -1, errRestarts
		}
		return -1, errors.New(msg.Error)
	case <-m.done:
		return -1, m.Err()
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.calls, id) // nothing is written to the outputs from here on
		m.mu.Unlock()
		m.say(message{ID: id, Kill: true})
		return -1, ctx.Err()
	}
}

func (m *Machine) say(msg message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Encode(msg)
}

// feed sends a command its input. A read that blocks when the command has
// ended is left behind, as os/exec does.
func (m *Machine) feed(id uint64, p *pending, ended <-chan struct{}) {
	buf := make([]byte, 1024)
	for p.Stdin != nil {
		n, err := p.Stdin.Read(buf)
		if n > 0 {
			if m.say(message{ID: id, In: buf[:n]}) != nil {
				return
			}
			select {
			case <-p.took:
			case <-ended:
				return
			}
		}
		if err != nil {
			break
		}
	}
	m.say(message{ID: id, EOF: true})
}

// Console is the path of a unix socket: what is read there the guest's
// console prints, what is written there it takes as typed.
func (m *Machine) Console() string { return filepath.Join(m.dir, consoleSocket) }

// Log is the path of all the console has printed.
func (m *Machine) Log() string { return filepath.Join(m.dir, consoleLog) }

// Close disconnects from the guest, which keeps running.
func (m *Machine) Close() error { return m.conn.Close() }

// Stop ends the guest and removes its directory. There is nothing in a guest
// to be saved, so its processes are killed.
func (m *Machine) Stop(ctx context.Context) error {
	m.conn.Close()
	return Remove(ctx, m.dir)
}

// Remove ends the guest of a directory, in whatever state, and removes the
// directory.
func Remove(ctx context.Context, dir string) error {
	pid, err := supervisorOf(dir)
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill the supervisor of %s: %w", dir, err)
		}
		if err := waitForEnd(ctx, pid); err != nil {
			return fmt.Errorf("end the guest of %s: %w", dir, err)
		}
	}
	return os.RemoveAll(dir)
}

// supervisorOf returns the PID of a directory's supervisor, 0 if it has ended: the
// number in the file counts only if that process's command line is a supervisor's.
func supervisorOf(dir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, pidFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", pidFile, err)
	}
	commandLine, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, nil
	}
	if !strings.HasSuffix(string(commandLine), "\x00"+roleSupervise+"\x00"+dir+"\x00") {
		return 0, nil
	}
	return pid, nil
}

// waitForEnd returns when a process has ended; a supervisor ends after all
// others of its PID namespace. It reaps where it is our child.
func waitForEnd(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
		if n > 0 {
			unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED, nil)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
	}
}
