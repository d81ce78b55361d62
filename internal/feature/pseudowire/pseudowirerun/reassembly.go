package pseudowirerun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weft/internal/datapath"
	"weft/internal/datapath/pseudowiretable"
	"weft/internal/feature/pseudowire"
	"weft/internal/slowpath"
	"weft/internal/state"
	"weft/internal/task"
)

// reassembly takes packets of pseudowires that come in fragments: the programs
// leave fragments to the kernel, which reassembles them for its own addresses,
// and raw sockets get the whole. One task for each address here and IP protocol.
type reassembly struct {
	log      *slog.Logger
	datapath *datapath.Datapath
	set      task.Set[string, *reassembler]
}

// reassembler is the task of one end, and its socket.
type reassembler struct {
	*task.Task
	socket atomic.Pointer[slowpath.Reassembled] // nil until it is open
}

// fault is why it does not work, or what it failed at.
func (r *reassembler) fault() error {
	if s := r.socket.Load(); s != nil {
		return errors.Join(r.Fault(), s.Fault())
	}
	return r.Fault()
}

// socketPause is how long a task waits before it opens its socket again.
const socketPause = time.Second

// apply has the tasks be those that the ends need.
func (j *reassembly) apply(ctx context.Context, ends []pseudowire.End) {
	wanted := map[string]pseudowire.End{}
	for _, e := range ends {
		wanted[fmt.Sprint(e)] = e
	}
	_ = task.Want(&j.set, wanted, func(*reassembler, pseudowire.End) bool { return true }, func(name string, e pseudowire.End) (*reassembler, error) {
		r := &reassembler{}
		r.Task = task.Keep(ctx, task.Kept{
			Name: "fragments of pseudowires to " + e.Local.String(), Log: j.log, Retry: task.Retry{First: socketPause, Most: socketPause},
			Run: func(ctx context.Context, works func()) error { return r.serve(ctx, j.datapath, e, works) },
		})
		return r, nil
	})
}

func (r *reassembler) serve(ctx context.Context, d *datapath.Datapath, e pseudowire.End, works func()) error {
	joiner, err := pseudowiretable.Of(d).Joiner()
	if err != nil {
		return err
	}
	frames, err := slowpath.OpenFrames()
	if err != nil {
		return err
	}
	defer frames.Close()
	socket, err := slowpath.OpenReassembled(ctx, e.Local, e.Protocol)
	if err != nil {
		return err
	}
	defer socket.Close()
	r.socket.Store(socket)
	works()
	return socket.Serve(ctx, func(packet []byte, device int) {
		frame, hidden, outcome, err := joiner.Unpack(packet, device)
		if err == nil && outcome == state.ForwardPseudowireDecap {
			frames.Send(frame, hidden)
		}
	})
}
