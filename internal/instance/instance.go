// Package instance is a router that was set up once and is not kept up to date:
// the one that weft trace sends packets through.
package instance

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/datapath"
	"weft/internal/feature/lns/lnsrun"
	"weft/internal/feature/nat64/nat64run"
	"weft/internal/feature/pseudowire"
	"weft/internal/feature/pseudowire/pseudowirerun"
	"weft/internal/feature/route/routerun"
	"weft/internal/features"
	"weft/internal/runner"
	"weft/internal/state"
)

// Instance is a router with its slow paths running. ICMP errors have no limit.
type Instance struct {
	router  *daemon.Router
	doors   runner.Doors
	slow    nat64run.SlowPaths
	pairs   []state.Endpoints // of hosts that pseudowires are between
	cancel  context.CancelFunc
	file    *config.File
	taps    *lnsrun.Taps // of subscribers
	closers []func() error
	mirror  *routerun.Mirror // nil: without [route]
}

// Options of Start.
type Options struct {
	Log      *slog.Logger
	Datapath datapath.Options
	Clock    func() int64 // nanoseconds, of the slow paths
}

// Start applies f to the namespace of the process and returns when every slow
// path can take packets.
func Start(ctx context.Context, f *config.File, o Options) (_ *Instance, err error) {
	o.Datapath.Tables = features.Sizes(f)
	r, err := daemon.Open(o.Datapath)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	i := &Instance{router: r, doors: r.RunnerDoors(o.Log, func() {}), file: f, pairs: pseudowire.Pairs(f), cancel: cancel}
	i.closers = append(i.closers, r.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	applied, err := r.Apply(ctx, f, daemon.Strict)
	if err != nil {
		return nil, err
	}
	i.slow, err = nat64run.StartSlowPaths(ctx, o.Log, o.Clock, i.doors.Datapath, f, applied.Facts)
	i.closers = append(i.closers, func() error { i.slow.Close(); return nil })
	if err != nil {
		return nil, err
	}
	if i.taps, err = lnsrun.OpenTaps(ctx, i.doors); err != nil {
		return nil, err
	}
	i.closers = append(i.closers, i.taps.Close)
	// The route tables are brought up to date by Follow, so that the programs know
	// what the kernel knows of a packet's path when it arrives.
	if i.mirror, err = routerun.OpenMirror(ctx, i.doors, f, applied.Facts); err != nil {
		return nil, err
	}
	i.closers = append(i.closers, i.mirror.Close)
	return i, nil
}

// Close stops the slow paths. What was applied stays.
func (i *Instance) Close() error {
	i.cancel()
	var errs []error
	for n := len(i.closers) - 1; n >= 0; n-- {
		errs = append(errs, i.closers[n]())
	}
	return errors.Join(errs...)
}

// Subscribe returns the instance sessions, as another router has them.
func (i *Instance) Subscribe(t state.LNSTables) error {
	end, err := lnsrun.Subscribe(i.doors, i.file, t)
	i.closers = append(i.closers, end)
	return err
}

// Follow has the programs know what the kernel says now of routes, and of the
// paths to the other ends of pseudowires.
func (i *Instance) Follow(ctx context.Context) error {
	if err := i.mirror.Follow(ctx); err != nil || len(i.pairs) == 0 {
		return err
	}
	return pseudowirerun.Follow(ctx, i.doors.Kernel, i.doors.Datapath, i.pairs)
}

// Counts returns what the programs decided so far.
func (i *Instance) Counts() ([]datapath.Count, error) { return i.doors.Datapath.Counts() }

// Slow returns what the slow paths decided so far, and how many packets they
// are done with.
func (i *Instance) Slow() (counts map[state.Outcome]uint64, served uint64) {
	counts, served = i.slow.Counts()
	return counts, served + i.taps.Served()
}

// Images returns the addresses that translators put in the place of a.
func (i *Instance) Images(a netip.Addr) []netip.Addr { return i.slow.Images(a) }
