package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"weft/internal/lab/probe"
)

// checkReboot kills a guest without a shutdown, and starts it again; with a command
// the guest does it itself. A guest with the host's root has its files afterwards, any
// other starts as it first did.
func (l *Lab) checkReboot(ctx context.Context, c Check, r *Result) error {
	r.Tried = fmt.Sprintf("%s is switched off, and on again", c.Node)
	if len(c.Argv) > 0 {
		r.Tried = fmt.Sprintf("in %s: %s", c.Node, strings.Join(c.Argv, " "))
	}
	machine, node := l.guests[c.Node], l.scenario.node(c.Node)
	if machine == nil {
		return fmt.Errorf("%s is no guest that runs", c.Node)
	}
	begin := time.Now()
	var err error
	if node.Root == "" {
		err = l.bootAgain(ctx, c.Node)
	} else {
		err = machine.Restart(ctx, c.Argv...)
	}
	if err != nil {
		return err
	}
	r.OK, r.Outcome = true, fmt.Sprintf("it is back after %.1f s", time.Since(begin).Seconds())
	return nil
}

// bootAgain replaces a guest by one that has never run.
func (l *Lab) bootAgain(ctx context.Context, node string) error {
	l.processes = slices.DeleteFunc(l.processes, func(p *process) bool { return p.node == node })
	if err := l.guests[node].Stop(ctx); err != nil {
		return err
	}
	delete(l.guests, node)
	for _, s := range Plan(l.scenario, l.Name) {
		if g, ok := s.(StartGuest); ok && g.Node.Name == node {
			return l.apply(ctx, g)
		}
	}
	return fmt.Errorf("%s is no guest", node)
}

// whileChanging is the shortest duration of a transfer during which a change
// happens. If the change takes longer, others follow it.
const whileChanging = 6 * time.Second

// checkReload changes a router's weft.toml while bytes are transferred both ways.
// With fails, the change alone must stop them, until the other end has followed or
// the change is reverted. All bytes must arrive in either case.
func (l *Lab) checkReload(ctx context.Context, c Check, r *Result) error {
	file := filepath.Join(l.nodeDir(c.Node), "weft.toml")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, words, err := changed(string(before), c.Change)
	if err != nil {
		return err
	}
	r.Tried = fmt.Sprintf("%s is reloaded with %s, TCP from %s to %s at %s meanwhile", c.Node, words, c.From, c.To, c.At)
	s, err := l.serve(ctx, c.At)
	if err != nil {
		return err
	}
	defer s.stop()
	if c.Bytes == 0 {
		c.Bytes = 16 << 20
	}
	wait := l.traffic(ctx, c, s)
	select {
	case <-time.After(underway):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.reload(ctx, c.Node, after); err != nil {
		return err
	}
	if broken := wait.broken(); broken != nil {
		return fmt.Errorf("%s broke off before the change was done: %w", broken.Direction, broken.err)
	}
	if c.Fails {
		if err := l.broken(ctx, c); err != nil {
			return err
		}
		if len(c.Argv) > 0 {
			_, err = l.run(ctx, c.At, c.Argv...)
		} else {
			err = l.reload(ctx, c.Node, string(before))
		}
		if err != nil {
			return err
		}
	}
	close(wait.changed)
	return wait.done(r)
}

// changed returns the text with each pair's first string replaced by its second.
func changed(text string, pairs [][]string) (after, words string, err error) {
	var said []string
	for _, p := range pairs {
		if strings.Count(text, p[0]) != 1 {
			return "", "", fmt.Errorf("%q is %d times in weft.toml, and must be there once", p[0], strings.Count(text, p[0]))
		}
		text = strings.Replace(text, p[0], p[1], 1)
		said = append(said, strings.Join(strings.Fields(p[1]), " "))
	}
	return text, strings.Join(said, ", "), nil
}

// broken checks that no traffic passes.
func (l *Lab) broken(ctx context.Context, c Check) error {
	c.Count = 2
	e, err := l.ping(ctx, c)
	if err == nil && e.Received > 0 {
		err = errors.New("the change should have stopped the traffic, and did not")
	}
	return err
}

// reload returns a node's router another weft.toml, and waits until it is applied.
func (l *Lab) reload(ctx context.Context, node, text string) error {
	i := slices.IndexFunc(l.processes, func(p *process) bool { return p.node == node && p.name == "weft" })
	if i < 0 {
		return fmt.Errorf("no router runs in %s", node)
	}
	p := l.processes[i]
	if err := os.WriteFile(filepath.Join(l.nodeDir(node), "weft.toml"), []byte(text), 0o644); err != nil {
		return err
	}
	socket, err := l.listenForEvents(node)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := p.signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("tell the router in %s to reload: %w", node, err)
	}
	if err := awaitEvents(ctx, socket, p, l.deadline, "RELOADING=1", "READY=1"); err != nil {
		return fmt.Errorf("reload in %s: %w", node, err)
	}
	// a refused file leaves steps to be done
	out, err := l.run(ctx, node, "{weft}", "plan", "{dir}/weft.toml", "--json")
	if err != nil {
		return err
	}
	if plan := strings.TrimSpace(string(out)); plan != "[]" {
		return fmt.Errorf("the router in %s did not apply the change, it would still: %s%s", node, plan, tail(p.log))
	}
	return nil
}

// listenForEvents creates the socket at which a node's router sends its systemd
// notifications.
func (l *Lab) listenForEvents(node string) (*net.UnixConn, error) {
	path := l.eventsPath(node)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // of before
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for readiness: %w", err)
	}
	return socket, nil
}

func (l *Lab) eventsPath(node string) string { return filepath.Join(l.nodeDir(node), "notify") }

// end is how one direction of a transfer ended.
type end struct {
	probe.Transfer
	err error
}

// traffic is a series of slow transfers in each direction, until the change is done.
type traffic struct {
	ends    chan end
	changed chan struct{} // to be closed
}

func (l *Lab) traffic(ctx context.Context, c Check, s *server) traffic {
	directions := []probe.Direction{probe.Download, probe.Upload}
	t := traffic{make(chan end, len(directions)), make(chan struct{})}
	for _, d := range directions {
		go func() { t.ends <- l.moveUntil(ctx, c, s, d, t.changed) }()
	}
	return t
}

// moveUntil returns the combined result of the transfers of one direction.
func (l *Lab) moveUntil(ctx context.Context, c Check, s *server, d probe.Direction, changed <-chan struct{}) end {
	all := end{Transfer: probe.Transfer{Direction: d, Same: true}}
	for {
		moved, err := l.move(ctx, c, s, d, "--over", whileChanging.String())
		if err != nil {
			all.err = err
			return all
		}
		all.Bytes += moved.Bytes
		all.Same = all.Same && moved.Same
		all.Silence = max(all.Silence, moved.Silence)
		select {
		case <-changed:
			return all
		default:
		}
	}
}

// broken returns a direction whose transfer has ended, nil if none has.
func (t traffic) broken() *end {
	select {
	case e := <-t.ends:
		return &e
	default:
		return nil
	}
}

// done waits for both transfers.
func (t traffic) done(r *Result) error {
	r.OK = true
	var said []string
	for range cap(t.ends) {
		e := <-t.ends
		if e.err != nil {
			return fmt.Errorf("%s: %w", e.Direction, e.err)
		}
		r.fact(string(e.Direction)+"_bytes", e.Bytes)
		r.fact(string(e.Direction)+"_silence_seconds", e.Silence.Seconds())
		r.fact(string(e.Direction)+"_same", e.Same)
		said = append(said, fmt.Sprintf("%s of %d MiB silent for %.2f s at most", e.Direction, e.Bytes>>20, e.Silence.Seconds()))
		if !e.Same {
			r.OK = false
			said = append(said, "BUT OTHER BYTES ARRIVED")
		}
	}
	if r.OK {
		said = append(said, "every byte the same by SHA-256")
	}
	r.Outcome = strings.Join(said, ", ")
	return nil
}
