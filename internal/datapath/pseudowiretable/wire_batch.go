package pseudowiretable

import (
	"context"

	"weft/internal/state"
	"weft/internal/task"
)

// wiresTogether is from how many pseudowires on they are made side by side.
const wiresTogether = 32

// together makes the pseudowires at the head of a series of steps. The kernel
// waits whenever a program is put on a device; what the programs know of the next
// pseudowires is written meanwhile. As ever a pseudowire has all that belongs to it
// before its program comes.
func (w *wires) together(ctx context.Context, steps []state.Step) (done int, err error) {
	var list []state.Pseudowire
	for _, s := range steps {
		p, is := s.Object.(state.Pseudowire)
		if !is || s.Op != state.Add {
			break
		}
		list = append(list, p)
	}
	if len(list) < wiresTogether {
		return 0, nil
	}
	if _, err := w.wireBuild(0); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan state.Pseudowire, len(list))
	var failed error // read once told is closed
	task.Go(func() {
		defer close(told)
		for _, p := range list {
			old, err := w.d.wireKeys(uint32(p.Hidden))
			if err == nil {
				err = w.d.tellOfWire(p, old)
			}
			if err != nil {
				failed = err
				return
			}
			if ctx.Err() != nil {
				return
			}
			told <- p
		}
	})
	for p := range told {
		if err == nil {
			if build := w.builds[p.Hidden]; build != p.Build {
				err = w.attachWire(p.Hidden, p.Build, build)
			}
		}
		if err != nil {
			cancel() // and wait for the other
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
