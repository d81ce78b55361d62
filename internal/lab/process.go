package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/lab/guest"
)

// process is a long-lived program in a node.
type process struct {
	node, name string
	log        string        // file
	done       chan struct{} // closed when it has ended
	signal     func(os.Signal) error
	err        error // why; read after done
}

// ended reports whether it is over.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure is the error of an ended process, with its last output.
func (p *process) failure() error {
	text := fmt.Sprintf("%s ended too early", p.name)
	if p.err != nil {
		text += " (" + p.err.Error() + ")"
	}
	return errors.New(text + tail(p.log))
}

// tail returns the last lines of a log, indented, for an error.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return "; it said nothing"
	}
	return ", saying\n    " + strings.ReplaceAll(lastLines(string(text), 12), "\n", "\n    ")
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// findPrograms looks for the programs that a scenario needs before anything is
// built.
func findPrograms(s *Scenario) error {
	var missing []error
	look := func(n Node, program, needs string) {
		if program == "{weft}" {
			return
		}
		if _, err := guest.FindProgram(program); err == nil {
			return
		}
		what := fmt.Errorf("node %s needs the program %s, which is not there", n.Name, program)
		if needs != "" {
			what = fmt.Errorf("%w: install it with apt-get install %s", what, needs)
		}
		missing = append(missing, what)
	}
	for _, n := range s.Nodes {
		if n.Kind.IsGuest() {
			if err := guest.Possible(guest.Spec{Kind: guest.Kind(n.Kind), Kernel: n.Kernel, Root: guest.Root(n.Root), Init: guest.Init(n.Init)}); err != nil {
				missing = append(missing, fmt.Errorf("node %s is a guest: %w", n.Name, err))
			}
		}
		for _, p := range n.Processes {
			look(n, p.Argv[0], p.Needs)
		}
		for _, p := range n.Programs {
			look(n, p.Name, p.Needs)
		}
	}
	if slices.ContainsFunc(s.Links, Link.Impaired) {
		if err := guest.Possible(guest.Spec{Kind: guest.UML}); err != nil {
			missing = append(missing, fmt.Errorf("a link with delay, jitter or loss is a guest: %w", err))
		}
	}
	return errors.Join(missing...)
}

// command prepares a program to run in a node. Its words may hold {dir} and
// {weft}.
func (l *Lab) command(ctx context.Context, node string, argv []string) *exec.Cmd {
	weft, dir := l.placesIn(node)
	fill := strings.NewReplacer("{dir}", dir, "{weft}", weft)
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = fill.Replace(w)
	}
	words = l.inGuest(node, words)
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Dir = l.nodeDir(node)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "WATCHDOG_")
	})
	return c
}

// launch starts a program that may outlive this process.
func (l *Lab) launch(node, name string, argv []string, env ...string) (*process, error) {
	p := &process{node: node, name: name, log: filepath.Join(l.nodeDir(node), name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := l.command(context.Background(), node, argv)
	c.Env = append(c.Env, env...)
	c.Stdout, c.Stderr = log, log
	if err := l.spaces[node].Start(c); err != nil {
		return nil, err
	}
	p.signal = c.Process.Signal
	l.processes = append(l.processes, p)
	go func() {
		p.err = c.Wait()
		close(p.done)
	}()
	return p, nil
}

// run runs a program in a node to its end and gives its standard output. The
// error has what it said last.
func (l *Lab) run(ctx context.Context, node string, argv ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	c := l.command(ctx, node, argv)
	c.Stdout, c.Stderr = &out, &complaint
	err := l.spaces[node].Start(c)
	if err == nil {
		err = c.Wait()
	}
	text := strings.TrimSpace(complaint.String())
	if text == "" {
		text = lastLines(out.String(), 3)
	}
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return out.Bytes(), context.Cause(ctx)
	case text != "":
		return out.Bytes(), fmt.Errorf("%w: %s", err, strings.TrimPrefix(text, "weft: "))
	}
	return out.Bytes(), err
}

// Exec runs a program in a node to its end and gives its standard output. Its
// words may hold {dir} and {weft}.
func (l *Lab) Exec(ctx context.Context, node string, argv ...string) ([]byte, error) {
	return l.run(ctx, node, argv...)
}

// startWeft starts the router and waits for READY=1 on a socket of the lab's
// own, as systemd would (sd_notify(3)).
func (l *Lab) startWeft(ctx context.Context, node string) error {
	socket, err := l.listenForEvents(node)
	if err != nil {
		return err
	}
	defer socket.Close()
	p, err := l.launch(node, "weft", []string{"{weft}", "run", "{dir}/weft.toml"}, "NOTIFY_SOCKET="+l.eventsPath(node))
	if err != nil {
		return err
	}
	return awaitEvents(ctx, socket, p, l.deadline, "READY=1")
}

// awaitEvents waits until a router has sent all of the words, in this order.
func awaitEvents(ctx context.Context, socket *net.UnixConn, p *process, deadline time.Duration, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	said := make(chan error, 1)
	go func() { said <- readEvents(socket, words) }()
	select {
	case err := <-said:
		return err
	case <-p.done:
		return p.failure()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("not ready after %s%s", deadline, tail(p.log))
		}
		return context.Cause(ctx)
	}
}

func readEvents(socket *net.UnixConn, words []string) error {
	buffer := make([]byte, 8192)
	for len(words) > 0 {
		n, _, err := socket.ReadFromUnix(buffer)
		if err != nil {
			return fmt.Errorf("wait for readiness: %w", err)
		}
		for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
			if len(words) > 0 && line == words[0] {
				words = words[1:]
			}
		}
	}
	return nil
}

func (l *Lab) startProcess(ctx context.Context, s StartProcess) error {
	if s.Process.Once {
		_, err := l.run(ctx, s.Node, s.Process.Argv...)
		return err
	}
	p, err := l.launch(s.Node, s.Process.Name, s.Process.Argv)
	if err != nil || len(s.Process.Ready) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := l.run(ctx, s.Node, s.Process.Ready...)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w%s", err, tail(p.log))
		case <-again.C:
		}
	}
}
