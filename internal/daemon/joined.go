package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/pseudowire"
	"weft/internal/slowpath"
	"weft/internal/state"
)

// joined takes packets of pseudowires that come in pieces: the programs leave
// pieces to the kernel, which joins them for its own addresses, and raw sockets
// get the whole. One task for each address here and IP protocol.
type joined struct {
	log     *slog.Logger
	ends    []pseudowire.End
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// joinedPause is how long a task waits before it opens its socket again.
const joinedPause = time.Second

func newJoined(log *slog.Logger) *joined { return &joined{log: log} }

// set has the tasks be those that f needs.
func (j *joined) set(ctx context.Context, d *datapath.Datapath, f *config.File) {
	ends := pseudowire.Ends(f)
	if slices.Equal(ends, j.ends) {
		return
	}
	if j.cancel != nil {
		j.cancel()
		j.cancel = nil
	}
	j.ends = ends
	if len(ends) == 0 {
		return
	}
	ctx, j.cancel = context.WithCancel(ctx)
	for _, e := range ends {
		j.running.Go(func() { j.run(ctx, d, e) })
	}
}

func (j *joined) wait() { j.running.Wait() }

// run serves one end until ctx ends.
func (j *joined) run(ctx context.Context, d *datapath.Datapath, e pseudowire.End) {
	said := ""
	for {
		err := serveJoined(ctx, d, e)
		if ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			j.log.Warn("packets of pseudowires that come in pieces are lost", "address", e.Local, "error", err)
		}
		if !pause(ctx, joinedPause) {
			return
		}
	}
}

func serveJoined(ctx context.Context, d *datapath.Datapath, e pseudowire.End) error {
	joiner, err := d.Joiner()
	if err != nil {
		return err
	}
	frames, err := slowpath.OpenFrames()
	if err != nil {
		return err
	}
	defer frames.Close()
	socket, err := slowpath.OpenJoined(ctx, e.Local, e.Protocol)
	if err != nil {
		return err
	}
	defer socket.Close()
	return socket.Serve(ctx, func(packet []byte, device int) {
		frame, hidden, outcome, err := joiner.Unpack(packet, device)
		if err == nil && outcome == state.ForwardWireIn {
			frames.Send(frame, hidden)
		}
	})
}
