package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/pseudowire"
	"weft/internal/features"
	"weft/internal/slowpath"
	"weft/internal/state"
)

// Instance is a router that was set up once, slow paths running, and is not
// kept up to date: the one that weft trace asks. ICMP errors have no limit.
type Instance struct {
	router   *Router
	services *services
	pairs    []state.Pair // of hosts that pseudowires are between
	cancel   context.CancelFunc
	file     *config.File
	taps     []*slowpath.Device // of subscribers
	closers  []func()
	mirror   *mirror // nil: without [route]
}

// StartOptions of Start.
type StartOptions struct {
	Log      *slog.Logger
	Datapath datapath.Options
	Clock    func() int64 // nanoseconds, of the slow paths
}

// Start applies f to the namespace of the process and returns when every slow
// path can take packets.
func Start(ctx context.Context, f *config.File, o StartOptions) (*Instance, error) {
	o.Datapath.Tables = features.Sizes(f)
	r, err := Open(o.Datapath)
	if err != nil {
		return nil, err
	}
	i := &Instance{router: r, services: newServices(o.Log), file: f, pairs: pseudowire.Pairs(f)}
	i.services.clock, i.services.all = o.Clock, true
	ctx, i.cancel = context.WithCancel(ctx)
	_, facts, err := r.Apply(ctx, f)
	if err != nil {
		i.Close()
		return nil, err
	}
	i.services.set(ctx, r.datapath, f, facts)
	if err := i.services.opened(ctx); err != nil {
		i.Close()
		return nil, err
	}
	if err := i.openTaps(ctx); err != nil {
		i.Close()
		return nil, err
	}
	if err := i.openRoutes(ctx, facts); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// openRoutes fills the route tables. They are brought up to date by Follow, so
// that what the kernel knows of a packet's way is known to the programs when it
// comes; the mirror asks for no neighbour by itself.
func (i *Instance) openRoutes(ctx context.Context, facts state.Facts) error {
	want := wantedOf(i.file, facts)
	if want.tables == (state.RouteTables{}) {
		return nil
	}
	m, done, err := openMirror(slog.New(slog.DiscardHandler), i.router, want)
	if err != nil {
		return fmt.Errorf("open the route tables: %w", err)
	}
	i.closers = append(i.closers, func() { _ = done() })
	if err := m.sync(ctx); err != nil {
		return fmt.Errorf("fill the route tables: %w", err)
	}
	i.mirror = m
	return nil
}

// Close stops the slow paths. What was applied stays.
func (i *Instance) Close() error {
	i.cancel()
	i.services.wait()
	for _, end := range i.closers {
		end()
	}
	return i.router.Close()
}

// Follow has the programs know what the kernel says now of routes, and of the
// ways to the other ends of pseudowires.
func (i *Instance) Follow(ctx context.Context) error {
	if i.mirror != nil {
		if err := i.mirror.catchUp(ctx); err != nil {
			return fmt.Errorf("follow the kernel's routes: %w", err)
		}
	}
	if len(i.pairs) == 0 {
		return nil
	}
	return follow(ctx, i.router.kernel, i.router.datapath, i.pairs)
}

// Counts gives what the programs decided so far.
func (i *Instance) Counts() ([]datapath.Count, error) { return i.router.datapath.Counts() }

// Slow gives what the slow paths decided so far, and how many packets they
// are done with.
func (i *Instance) Slow() (counts map[state.Outcome]uint64, served uint64) {
	i.services.mu.Lock()
	defer i.services.mu.Unlock()
	counts = map[state.Outcome]uint64{}
	for _, r := range i.services.slow {
		if d := r.device.Load(); d != nil {
			served += d.Served()
		}
		for o, n := range r.slow.Counts() {
			counts[o] += n
		}
	}
	for _, d := range i.taps {
		served += d.Served()
	}
	return counts, served
}

// Images gives the addresses that translators put in the place of a.
func (i *Instance) Images(a netip.Addr) []netip.Addr {
	i.services.mu.Lock()
	defer i.services.mu.Unlock()
	var images []netip.Addr
	for _, r := range i.services.slow {
		images = append(images, r.slow.Images(a)...)
	}
	return images
}

// opened waits until every slow path has its device.
func (s *services) opened(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("not open after 30s"))
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for name, r := range s.slow {
		for r.device.Load() == nil {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the slow path of nat64.%s: %w", name, context.Cause(ctx))
			case <-tick.C:
			}
		}
	}
	return nil
}
