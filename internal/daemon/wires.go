package daemon

import (
	"context"
	"log/slog"
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
	log    *slog.Logger
	kernel *kernel.Kernel
	again  chan<- struct{}
	mu     sync.Mutex
	pairs  []state.Pair
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// wiresPause is between two looks at routes and neighbours.
const wiresPause = time.Second

func newWires(log *slog.Logger, k *kernel.Kernel, again chan<- struct{}) *wires {
	return &wires{log: log, kernel: k, again: again}
}

// set has the task look after the pairs of f.
func (w *wires) set(ctx context.Context, d *datapath.Datapath, f *config.File) {
	pairs := pseudowire.Pairs(f)
	w.mu.Lock()
	w.pairs = pairs
	w.mu.Unlock()
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
	tick := time.NewTicker(wiresPause)
	defer tick.Stop()
	var said string
	for {
		w.mu.Lock()
		pairs := w.pairs
		w.mu.Unlock()
		changed, err := follow(ctx, w.kernel, d, pairs)
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			w.log.Warn("the ways of pseudowires may be old", "error", err)
		}
		if changed {
			select {
			case w.again <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow writes what the kernel says of the ways; it tells whether an MTU is
// another one than before.
func follow(ctx context.Context, k *kernel.Kernel, d *datapath.Datapath, pairs []state.Pair) (changed bool, err error) {
	before, err := d.Ways()
	if err != nil {
		return false, err
	}
	now, asks, err := waysOf(ctx, k, pairs)
	if err != nil {
		return false, err
	}
	for pair, way := range now {
		if err := d.SetWay(pair, way); err != nil {
			return changed, err
		}
	}
	for pair := range before {
		if _, still := now[pair]; !still {
			if err := d.ForgetWay(pair); err != nil {
				return changed, err
			}
		}
	}
	after, err := d.Ways()
	if err != nil {
		return changed, err
	}
	for pair, way := range after {
		was := before[pair]
		changed = changed || was.MTU != way.MTU || was.PathMTU != way.PathMTU
	}
	return changed, k.ResolveAll(ctx, asks)
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
