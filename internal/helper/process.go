package helper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/task"
	"weft/internal/version"
)

// Find returns the path of a helper program: it is beside this process's own.
func Find(program string) (string, error) {
	path := program
	if !strings.Contains(program, "/") {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the directory of weft: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), program)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is missing: install it beside weft, as make install and the Debian package do", path)
	case err != nil:
		return "", fmt.Errorf("find %s: %w", program, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not a program: install it again beside weft", path)
	}
	return path, nil
}

// child is a process and weft's ends of what it has.
type child struct {
	cmd   *exec.Cmd
	conn  net.Conn
	life  io.Closer // closed when weft dies, however it does
	words *words
	ended chan error // the result of Wait
}

// begin starts the program.
func begin(path string, log func(string)) (*child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "line"), os.NewFile(uintptr(pair[1]), "line")
	defer theirs.Close()
	defer ours.Close() // FileConn has its own
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(path), conn: conn, words: &words{log: log}}
	c.cmd.ExtraFiles, c.cmd.Stderr = []*os.File{theirs}, c.words
	c.cmd.Env = environment(os.Environ())                   // in the directory of weft, to which paths of weft.toml are relative
	c.cmd.WaitDelay = grace                                 // for who has inherited its standard error
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is weft's to handle
	if c.life, err = c.cmd.StdinPipe(); err != nil {
		conn.Close()
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	c.ended = task.Beside(c.cmd.Wait)
	return c, nil
}

// environment leaves out what is between systemd and weft alone.
func environment(list []string) (kept []string) {
	for _, e := range list {
		name, _, _ := strings.Cut(e, "=")
		if name != "NOTIFY_SOCKET" && !strings.HasPrefix(name, "WATCHDOG_") && !strings.HasPrefix(name, "LISTEN_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// end has the process end, by itself within a time or by SIGKILL, and returns
// how it did.
func (c *child) end(within time.Duration) error {
	c.conn.Close()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-c.ended:
		return err
	case <-timer.C:
	}
	c.cmd.Process.Kill()
	return <-c.ended
}

// process starts the program, and exchanges messages until one end fails.
func (h *Helper) process(ctx context.Context, works func()) error {
	path, err := Find(h.spec.Program)
	if err != nil {
		return &noStart{err}
	}
	c, err := begin(path, h.line)
	if err != nil {
		return &noStart{err}
	}
	defer c.life.Close()
	hurry := context.AfterFunc(ctx, func() { c.conn.Close() })
	err = greet(c.conn, path, filepath.Base(h.spec.Program))
	hurry()
	if err != nil {
		if exit := c.end(0); errors.Is(err, io.EOF) {
			err = c.words.explain(fmt.Errorf("%s does not start: %w", path, exit))
		}
		return &noStart{err}
	}
	if err := write(c.conn, h.spec.First); err != nil {
		return &noStart{errors.Join(fmt.Errorf("send to %s: %w", path, err), c.end(0))}
	}
	h.raise(c.cmd.Process.Pid)
	defer h.lower()
	works()
	group := task.NewGroup(ctx)
	stop := context.AfterFunc(group.Context(), func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	group.Go(func(ctx context.Context) error { return h.send(ctx, c.conn) })
	group.Go(func(ctx context.Context) error { return h.receive(ctx, c.conn) })
	err = group.Wait()
	if ctx.Err() != nil {
		c.end(grace)
		return context.Cause(ctx)
	}
	if errors.Is(err, errHangs) {
		c.end(0)
		return fmt.Errorf("%s: %w", path, err)
	}
	exit := c.end(time.Second)
	if exit == nil {
		exit = err
	}
	return c.words.explain(fmt.Errorf("%s has ended: %w", path, exit))
}

// greet receives the helper's first message and compares the version.
func greet(conn net.Conn, path, program string) error {
	conn.SetReadDeadline(time.Now().Add(helloAfter))
	m, err := read(conn)
	if err != nil {
		return fmt.Errorf("%s does not say which version it is: %w", path, err)
	}
	var g greeting
	if m.Kind != hello || json.Unmarshal(m.Data, &g) != nil || g.Program != program {
		return fmt.Errorf("%s is not the %s of weft: install it again beside weft", path, program)
	}
	if ours := version.String(); g.Version != ours {
		return fmt.Errorf("%s is of version %s, this weft is %s: install both from one package, and restart weft", path, g.Version, ours)
	}
	return nil
}

// errHangs is the error of a helper that does not handle its messages.
var errHangs = fmt.Errorf("it has not answered for %s, and was killed", hangsAfter)

// send passes on what is to be sent, and asks whether the helper is alive.
func (h *Helper) send(ctx context.Context, conn net.Conn) error {
	asks := time.NewTicker(pingEvery)
	defer asks.Stop()
	for {
		var m Message
		select {
		case <-ctx.Done():
			return nil
		case m = <-h.out:
		case <-asks.C:
			m = Message{Kind: ping}
		}
		conn.SetWriteDeadline(time.Now().Add(hangsAfter))
		if ctx.Err() != nil { // its end has set a deadline, too
			return nil
		}
		if err := write(conn, m); err != nil {
			return hangs(err)
		}
	}
}

// receive passes on what comes. While the receiver does not take it, no time
// passes for the helper. Neither does it while weft itself is stopped: after a
// first period without an answer there is always a second one.
func (h *Helper) receive(ctx context.Context, conn net.Conn) error {
	r := bufio.NewReader(conn)
	for silent := 0; ; {
		conn.SetReadDeadline(time.Now().Add(hangsAfter / 2))
		if ctx.Err() != nil {
			return nil
		}
		if _, err := r.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) && silent == 0 {
			silent++
			continue
		}
		silent = 0
		m, err := read(r)
		if err != nil {
			return hangs(err)
		}
		if m.Kind < firstOwn {
			h.spec.Receive(ctx, m)
		}
	}
}

func hangs(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errHangs
	}
	return err
}

func (h *Helper) line(text string) {
	if h.spec.Log != nil {
		h.spec.Log.Warn("helper process", "program", h.spec.Program, "says", text)
	}
}
