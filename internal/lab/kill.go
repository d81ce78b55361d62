package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
)

// kill removes a node as a power failure would: its cables are dead at once, its
// processes are killed, and its kernel state is lost. Only its files stay.
func (l *Lab) kill(ctx context.Context, node string) error {
	space := l.spaces[node]
	cookie, err := space.Cookie()
	if err != nil {
		return err
	}
	l.processes = slices.DeleteFunc(l.processes, func(p *process) bool { return p.node == node })
	if err := l.cut(node); err != nil {
		return fmt.Errorf("cut the cables of %s: %w", node, err)
	}
	if err := netspace.Kill(ctx, space); err != nil {
		return err
	}
	delete(l.spaces, node)
	return errors.Join(removeOwned(cookie), space.Close(), netspace.Delete(space.Name))
}

// cut removes the ends of cables from a node, and with them the other ends.
func (l *Lab) cut(node string) error {
	h, err := l.spaces[node].Netlink()
	if err != nil {
		return err
	}
	defer h.Close()
	for _, device := range l.scenario.devicesOf(node) {
		link, err := h.LinkByName(device)
		if err == nil {
			err = h.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", device, err)
		}
	}
	return nil
}

// revive brings a node that was killed back, with the steps of the plan that
// are about it.
func (l *Lab) revive(ctx context.Context, node string) error {
	if l.spaces[node] != nil {
		return fmt.Errorf("%s is alive", node)
	}
	for _, step := range Plan(l.scenario, l.Name) {
		if !concerns(step, node) {
			continue
		}
		if err := l.apply(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether a step is about a node.
func concerns(step Step, node string) bool {
	switch s := step.(type) {
	case MakeSpace:
		return s.Node == node
	case MakeSwitch:
		return s.Node == node
	case MakeCable:
		return s.Ends[0].Node == node || s.Ends[1].Node == node
	case AwaitLinks:
		return s.Node == node
	case SetSysctls:
		return s.Node == node
	case AddRoutes:
		return s.Node == node
	case WriteFile:
		return s.Node == node
	case StartWeft:
		return s.Node == node
	case StartProcess:
		return s.Node == node
	}
	return false
}

func (l *Lab) checkKill(ctx context.Context, c Check, r *Result) error {
	r.Tried = fmt.Sprintf("%s: no cables, no processes, nothing in its kernel; its files stay", c.Node)
	if l.spaces[c.Node] == nil {
		return fmt.Errorf("%s is dead already", c.Node)
	}
	if err := l.kill(ctx, c.Node); err != nil {
		return err
	}
	r.OK, r.Outcome = true, "it is gone"
	return nil
}

func (l *Lab) checkRevive(ctx context.Context, c Check, r *Result) error {
	r.Tried = fmt.Sprintf("%s again, with nothing but its files", c.Node)
	if err := l.revive(ctx, c.Node); err != nil {
		return err
	}
	r.OK, r.Outcome = true, "it is there"
	return nil
}

// underway is how long a transfer runs before the node is killed.
const underway = time.Second

// checkTakeover kills a node while bytes are transferred both ways over two
// connections. They must all arrive, and without a pause that is too long.
func (l *Lab) checkTakeover(ctx context.Context, c Check, r *Result) error {
	if c.Bytes == 0 {
		c.Bytes = 64 << 20
	}
	r.Tried = fmt.Sprintf("TCP from %s to %s at %s, %s each way; %s is killed in the midst of it", c.From, c.To, c.At, c.Bytes, c.Kill)
	if l.spaces[c.Kill] == nil {
		return fmt.Errorf("%s is dead already", c.Kill)
	}
	s, err := l.serve(ctx, c.At)
	if err != nil {
		return err
	}
	defer s.stop()
	directions := []probe.Direction{probe.Download, probe.Upload}
	ends := make(chan end, len(directions))
	for _, d := range directions {
		go func() {
			t, err := l.move(ctx, c, s, d)
			t.Direction = d
			ends <- end{t, err}
		}()
	}
	select {
	case <-time.After(underway):
	case <-ctx.Done():
	case e := <-ends:
		if e.err != nil {
			return fmt.Errorf("%s broke off before %s was killed: %w", e.Direction, c.Kill, e.err)
		}
		return fmt.Errorf("%s was over after less than %s, before %s was killed", e.Direction, underway, c.Kill)
	}
	if err := l.kill(ctx, c.Kill); err != nil {
		return err
	}
	r.OK = true
	for range directions {
		e := <-ends
		if e.err != nil {
			return fmt.Errorf("%s: %w", e.Direction, e.err)
		}
		r.fact(string(e.Direction)+"_silence_seconds", e.Silence.Seconds())
		r.fact(string(e.Direction)+"_same", e.Same)
		r.Outcome += fmt.Sprintf("%s silent for %.2f s at most, ", e.Direction, e.Silence.Seconds())
		switch {
		case !e.Same:
			r.OK = false
			r.Outcome += "OTHER BYTES ARRIVED, "
		case e.Silence > time.Duration(c.Within):
			r.OK = false
			r.Outcome += fmt.Sprintf("MORE THAN %s, ", c.Within)
		}
	}
	if r.OK {
		r.Outcome += "every byte the same by SHA-256"
	}
	return nil
}
