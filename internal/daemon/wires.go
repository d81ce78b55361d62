package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/pseudowire"
	"weft/internal/kernel"
	"weft/internal/state"
)

// wires keeps the programs told how packets get to the other ends of
// pseudowires, and asks for a new plan when the MTU of a way changes.
type wires struct {
	log     *slog.Logger
	kernel  *kernel.Kernel
	again   chan<- struct{}
	mu      sync.Mutex
	pairs   []state.Pair
	planned map[state.Pair]int // sizes that the last plan knew
	changed chan struct{}      // there are other pairs
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
}

// What the kernel's news tell is looked at no more often than wiresPause, and
// wiresShare of the time at most. What routers under way have told the programs
// nobody announces: that is looked at every wiresLook. Everything is, news or
// none, every wiresAll.
const (
	wiresPause = 10 * time.Millisecond
	wiresShare = 20
	wiresLook  = time.Second
	wiresAll   = 30 * time.Second
)

func newWires(log *slog.Logger, k *kernel.Kernel, again chan<- struct{}) *wires {
	return &wires{log: log, kernel: k, again: again, changed: make(chan struct{}, 1)}
}

// set has the task look after the pairs of f, whose plan knew the facts.
func (w *wires) set(ctx context.Context, d *datapath.Datapath, f *config.File, facts state.Facts) {
	pairs := pseudowire.Pairs(f)
	w.mu.Lock()
	others := !slices.Equal(w.pairs, pairs)
	w.pairs, w.planned = pairs, sizes(facts.Ways)
	w.mu.Unlock()
	if others {
		wake(w.changed)
	}
	switch {
	case len(pairs) == 0 && w.cancel != nil:
		w.cancel()
		w.cancel = nil
	case len(pairs) > 0 && w.cancel == nil:
		var task context.Context
		task, w.cancel = context.WithCancel(ctx)
		w.tasks.Go(func() { w.run(task, d) })
	}
}

func (w *wires) run(ctx context.Context, d *datapath.Datapath) {
	news := make(chan struct{}, 1)
	if err := w.kernel.WatchWays(ctx, news); err != nil {
		w.log.Warn("ways of pseudowires are followed every 30 seconds only", "error", err)
	}
	look, all := time.NewTicker(wiresLook), time.NewTicker(wiresAll)
	defer look.Stop()
	defer all.Stop()
	var said string
	var asked map[state.Pair]int
	for full := true; ; {
		begin := time.Now()
		pairs, planned := w.wanted()
		err := error(nil)
		if full {
			err = follow(ctx, w.kernel, d, pairs)
		}
		ways, lookErr := d.Ways()
		if now := sizes(ways); lookErr == nil && !maps.Equal(now, planned) && !maps.Equal(now, asked) {
			asked = now
			wake(w.again)
		}
		switch err := errors.Join(err, lookErr); {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			w.log.Warn("the ways of pseudowires may be old", "error", err)
		}
		if full && !pause(ctx, max(wiresPause, wiresShare*time.Since(begin))) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			full = false
		case <-all.C:
			full = true
		case <-w.changed:
			full = true
		case <-news:
			full = true
		}
	}
}

// wanted gives the pairs to look after, and what the last plan knew of them.
func (w *wires) wanted() ([]state.Pair, map[state.Pair]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pairs, w.planned
}

// wake has something in a channel of one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits; false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// sizes gives how large packets may be, by way.
func sizes(ways map[state.Pair]state.Way) map[state.Pair]int {
	sizes := make(map[state.Pair]int, len(ways))
	for pair, way := range ways {
		sizes[pair] = way.MTU
		if way.PathMTU != 0 {
			sizes[pair] = min(way.MTU, way.PathMTU)
		}
	}
	return sizes
}

// follow writes what the kernel says of the ways.
func follow(ctx context.Context, k *kernel.Kernel, d *datapath.Datapath, pairs []state.Pair) error {
	before, err := d.Ways()
	if err != nil {
		return err
	}
	now, asks, err := waysOf(ctx, k, pairs)
	if err != nil {
		return err
	}
	for pair, way := range now {
		if err := d.SetWay(pair, way); err != nil {
			return err
		}
	}
	for pair := range before {
		if _, still := now[pair]; !still {
			if err := d.ForgetWay(pair); err != nil {
				return err
			}
		}
	}
	return k.ResolveAll(ctx, asks)
}

// waysOf asks the kernel for the way of each pair, and gives the neighbours
// whose link addresses it should find.
func waysOf(ctx context.Context, k *kernel.Kernel, pairs []state.Pair) (map[state.Pair]state.Way, []state.KernelNeighbour, error) {
	if len(pairs) == 0 {
		return nil, nil, nil
	}
	neighbours, err := k.Neighbours(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := k.Matcher()
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	links := map[int]state.LinkFact{}
	ways := map[state.Pair]state.Way{}
	var asks []state.KernelNeighbour
	for _, pair := range pairs {
		route, ok, err := m.Match(ctx, pair.Remote)
		if err != nil {
			return nil, nil, err
		}
		var r *state.KernelRoute
		index := 1 // loopback always is
		if ok {
			r = &route
			if route.Type != state.RouteLocal && len(route.Hops) > 0 {
				index = route.Hops[0].Device
			}
		}
		if _, known := links[index]; !known {
			if links[index], err = k.LinkAt(index); err != nil {
				continue // gone since
			}
		}
		way, ask := pseudowire.FindWay(pair, r, links[index], neighbours)
		ways[pair] = way
		if ask != nil {
			asks = append(asks, *ask)
		}
	}
	return ways, asks, nil
}
