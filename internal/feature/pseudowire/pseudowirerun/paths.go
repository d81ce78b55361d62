package pseudowirerun

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"weft/internal/datapath"
	"weft/internal/datapath/pseudowiretable"
	"weft/internal/feature/pseudowire"
	"weft/internal/kernel"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/state"
	"weft/internal/task"
)

// pathWatcher keeps the programs informed of how packets get to the other ends
// of pseudowires, and asks for a new plan when the MTU of a path changes.
type pathWatcher struct {
	log      *slog.Logger
	kernel   *kernel.Kernel
	datapath *datapath.Datapath
	replan   func()
	wanted   chan pathsWanted // one: the last
	task     *task.Task       // nil while there are no pairs
	now      pathsWanted      // the task's own
}

// pathsWanted is what the watcher is to look after.
type pathsWanted struct {
	pairs   []state.Endpoints
	planned map[state.Endpoints]int // sizes that the last plan knew
}

// What the kernel's events announce is looked at no more often than pathsPause, and
// pathsShare of the time at most. What routers under way have reported to
// the programs is not announced: that is looked at every pathsLook. Everything is, with
// events or without, every pathsAll.
const (
	pathsPause = 10 * time.Millisecond
	pathsShare = 20
	pathsLook  = time.Second
	pathsAll   = 30 * time.Second
)

// apply has the task look after the pairs of a file, whose plan knew the facts.
func (w *pathWatcher) apply(ctx context.Context, pairs []state.Endpoints, facts state.Facts) {
	if len(pairs) == 0 {
		w.stop()
		return
	}
	select {
	case <-w.wanted: // not looked at yet
	default:
	}
	w.wanted <- pathsWanted{pairs, sizes(facts.Paths)}
	if w.task == nil {
		w.task = task.Keep(ctx, task.Kept{Name: "paths of pseudowires", Log: w.log, Run: w.run})
	}
}

func (w *pathWatcher) stop() {
	if w.task != nil {
		w.task.Stop()
		w.task = nil
	}
}

func (w *pathWatcher) run(ctx context.Context, works func()) error {
	events := task.NewWake()
	if err := w.kernel.WatchPaths(ctx, events); err != nil {
		w.log.Warn("cannot subscribe to route events; pseudowire paths are updated every 30 seconds only", "error", err)
	}
	look, all := time.NewTicker(pathsLook), time.NewTicker(pathsAll)
	defer look.Stop()
	defer all.Stop()
	var asked map[state.Endpoints]int
	full := len(w.now.pairs) > 0 // after a failure
	for first := full; ; first = false {
		if !first {
			select {
			case <-ctx.Done():
				return nil
			case want := <-w.wanted:
				full, w.now = !slices.Equal(w.now.pairs, want.pairs), want
			case <-look.C:
			case <-all.C:
				full = true
			case <-events:
				full = true
			}
		}
		begin := time.Now()
		if full {
			if err := Follow(ctx, w.kernel, w.datapath, w.now.pairs); err != nil {
				return err // all is tried again, after a pause
			}
		}
		paths, err := pseudowiretable.Of(w.datapath).Paths()
		if err != nil {
			return err
		}
		if found := sizes(paths); !maps.Equal(found, w.now.planned) && !maps.Equal(found, asked) {
			asked = found
			w.replan()
		}
		works()
		if full && !task.Pause(ctx, max(pathsPause, pathsShare*time.Since(begin))) {
			return nil
		}
		full = false
	}
}

// sizes returns how large packets may be, by way.
func sizes(paths map[state.Endpoints]state.PseudowirePath) map[state.Endpoints]int {
	sizes := make(map[state.Endpoints]int, len(paths))
	for endpoints, way := range paths {
		sizes[endpoints] = way.MTU
		if way.PathMTU != 0 {
			sizes[endpoints] = min(way.MTU, way.PathMTU)
		}
	}
	return sizes
}

// Follow writes what the kernel says of the paths.
func Follow(ctx context.Context, k *kernel.Kernel, d *datapath.Datapath, pairs []state.Endpoints) error {
	before, err := pseudowiretable.Of(d).Paths()
	if err != nil {
		return err
	}
	now, asks, err := pathsOf(ctx, k, pairs)
	if err != nil {
		return err
	}
	for endpoints, way := range now {
		if err := pseudowiretable.Of(d).SetPath(endpoints, way); err != nil {
			return err
		}
	}
	for endpoints := range before {
		if _, still := now[endpoints]; !still {
			if err := pseudowiretable.Of(d).ForgetWay(endpoints); err != nil {
				return err
			}
		}
	}
	return rtnetlink.ResolveAll(ctx, asks)
}

// pathsOf asks the kernel for the way of each pair, and gives the neighbours
// whose link addresses it should find.
func pathsOf(ctx context.Context, k *kernel.Kernel, pairs []state.Endpoints) (map[state.Endpoints]state.PseudowirePath, []state.KernelNeighbour, error) {
	if len(pairs) == 0 {
		return nil, nil, nil
	}
	neighbours, err := rtnetlink.Neighbours(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := rtnetlink.OpenMatcher()
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	links := map[int]state.LinkFact{}
	paths := map[state.Endpoints]state.PseudowirePath{}
	var asks []state.KernelNeighbour
	for _, endpoints := range pairs {
		route, ok, err := m.Match(ctx, endpoints.Remote)
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
		way, ask := pseudowire.FindWay(endpoints, r, links[index], neighbours)
		paths[endpoints] = way
		if ask != nil {
			asks = append(asks, *ask)
		}
	}
	return paths, asks, nil
}
