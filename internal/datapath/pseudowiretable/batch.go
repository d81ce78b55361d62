package pseudowiretable

import (
	"context"

	"weft/internal/state"
	"weft/internal/task"
)

// pseudowiresTogether is the number of pseudowires from which on they are made
// concurrently.
const pseudowiresTogether = 32

// together makes the pseudowires at the head of a series of steps. The kernel waits
// whenever a program is attached; the map entries of the next pseudowires are
// written meanwhile. As always, the entries of a pseudowire are complete before its
// program is attached.
func (w *pseudowires) together(ctx context.Context, steps []state.Step) (done int, err error) {
	var list []state.Pseudowire
	for _, s := range steps {
		p, is := s.Object.(state.Pseudowire)
		if !is || s.Op != state.Add {
			break
		}
		list = append(list, p)
	}
	if len(list) < pseudowiresTogether {
		return 0, nil
	}
	if _, err := w.pseudowireBuild(0); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := make(chan state.Pseudowire, len(list))
	var failed error // read once written is closed
	task.Go(func() {
		defer close(written)
		for _, p := range list {
			old, err := w.d.pseudowireKeys(uint32(p.Hidden))
			if err == nil {
				err = w.d.notifyOfPseudowire(p, old)
			}
			if err != nil {
				failed = err
				return
			}
			if ctx.Err() != nil {
				return
			}
			written <- p
		}
	})
	for p := range written {
		if err == nil {
			if build := w.builds[p.Hidden]; build != p.Build {
				err = w.attachPseudowire(p.Hidden, p.Build, build)
			}
		}
		if err != nil {
			cancel() // and wait for the other goroutine
		}
	}
	if err == nil {
		err = failed
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return len(list), err
}
