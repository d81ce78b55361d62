package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"weft/fib"
	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/route"
	"weft/internal/kernel"
	"weft/internal/state"
)

// routing keeps one mirror running while [route] is there, and starts another
// when the tables are to be of another size or number.
type routing struct {
	log    *slog.Logger
	router *Router
	mu     sync.Mutex // the API asks while a reload changes it
	now    *mirrored
	tasks  sync.WaitGroup
}

// mirrored is a mirror and what it was made for.
type mirrored struct {
	want   wanted
	cancel context.CancelFunc
	ended  chan struct{}
	mirror *mirror // nil until it is open
	mu     sync.Mutex
}

// wanted is what makes another mirror necessary if it changes.
type wanted struct {
	tables state.RouteTables
	kernel []uint32
}

func (w wanted) equal(v wanted) bool { return w.tables == v.tables && slices.Equal(w.kernel, v.kernel) }

// wantedOf gives what f wants; no tables if it has no [route].
func wantedOf(f *config.File, facts state.Facts) (want wanted) {
	for _, o := range route.Plan(f, facts).Objects {
		if t, ok := o.(state.RouteTables); ok {
			want.tables = t
		}
	}
	want.kernel = route.KernelTables(f, facts)
	return want
}

// set starts, keeps or stops the mirror as f has it.
func (r *routing) set(ctx context.Context, f *config.File, facts state.Facts) {
	want := wantedOf(f, facts)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil && r.now.want.equal(want) {
		return
	}
	if r.now != nil {
		// only one may write next hops; packets go on by what it has written
		r.now.cancel()
		<-r.now.ended
		r.now = nil
	}
	if want.tables == (state.RouteTables{}) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &mirrored{want: want, cancel: cancel, ended: make(chan struct{})}
	r.now = m
	r.tasks.Go(func() {
		defer close(m.ended)
		r.serve(ctx, m)
	})
}

// serve runs a mirror; if it fails another is begun, from nothing.
func (r *routing) serve(ctx context.Context, m *mirrored) {
	for ctx.Err() == nil {
		err := r.serveOnce(ctx, m)
		if ctx.Err() != nil {
			return
		}
		r.log.Error("the mirror of the routes ended, packets go on by what it last wrote", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (r *routing) serveOnce(ctx context.Context, m *mirrored) (err error) {
	mirror, done, err := openMirror(r.log, r.router, m.want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	m.mu.Lock()
	m.mirror = mirror
	m.mu.Unlock()
	err = mirror.run(ctx)
	m.mu.Lock()
	m.mirror = nil
	m.mu.Unlock()
	return err
}

// openMirror makes a mirror with tables of a new generation, which it puts to
// use when they are complete. It does nothing yet.
func openMirror(log *slog.Logger, r *Router, want wanted) (m *mirror, done func() error, err error) {
	routes, err := r.datapath.Routes()
	if err != nil {
		return nil, nil, err
	}
	service, err := newService(routes, want.kernel)
	if err != nil {
		return nil, nil, errors.Join(err, routes.Close())
	}
	feed, err := r.kernel.RouteFeed()
	if err != nil {
		return nil, nil, errors.Join(err, routes.Close())
	}
	done = func() error {
		feed.Close()
		return routes.Close()
	}
	return newMirror(log, feed, service, routes, routes.Publish), done, nil
}

// newService makes a service on the tables of a new generation.
func newService(routes *datapath.Routes, kernelTables []uint32) (*route.Service, error) {
	var specs []route.TableSpec
	for i, id := range kernelTables {
		words4, err := routes.Words4(i)
		if err != nil {
			return nil, err
		}
		words6, err := routes.Words6(i)
		if err != nil {
			return nil, err
		}
		spec := route.TableSpec{Kernel: id}
		if spec.IPv4, err = fib.New4(words4); err != nil {
			return nil, err
		}
		if spec.IPv6, err = fib.New6(words6); err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	first, end := routes.Range()
	return route.New(routes, route.Numbers{First: first, Last: end - 1}, specs...), nil
}

// with runs f with the service that runs now; an error if none does.
func (r *routing) with(ctx context.Context, f func(*route.Service)) error {
	m, err := r.running()
	if err != nil {
		return err
	}
	return m.with(ctx, f)
}

// running is the mirror that runs now.
func (r *routing) running() (*mirror, error) {
	r.mu.Lock()
	now := r.now
	r.mu.Unlock()
	if now == nil {
		return nil, errors.New("the daemon does not route: weft.toml has no [route]")
	}
	now.mu.Lock()
	m := now.mirror
	now.mu.Unlock()
	if m == nil {
		return nil, errors.New("the mirror of the routes is not running; the log says why")
	}
	return m, nil
}

// Mirror tells how the mirror is doing, for the metrics.
func (s source) Mirror(ctx context.Context) (api.Mirror, error) {
	m, err := s.routing.running()
	if err != nil {
		return api.Mirror{}, err
	}
	// before the mirror is asked: it answers when no news wait
	out := api.Mirror{Listings: m.resyncs.Load(), Behind: m.feed.Behind()}
	busy := m.with(ctx, func(r *route.Service) {
		status := r.Status()
		out.Status = &status
	})
	if busy != nil && ctx.Err() == nil {
		return out, busy
	}
	return out, nil
}

// Explain takes a lookup apart, for the API.
func (s source) Explain(ctx context.Context, table int, a netip.Addr) (e fib.Explanation, err error) {
	failed := s.routing.with(ctx, func(r *route.Service) { e, err = r.Explain(table, a) })
	return e, errors.Join(failed, err)
}

// FIB gives the statistics of the tables and what the mirror holds, for the API.
func (s source) FIB(ctx context.Context) (f api.FIB, err error) {
	err = s.routing.with(ctx, func(r *route.Service) {
		status := r.Status()
		f.Mirror = &status
		for i, why := range status.Suspended {
			if why != "" {
				if f.Suspended == nil {
					f.Suspended = map[string]string{}
				}
				f.Suspended[[...]string{"IPv4", "IPv6"}[i]] = why
			}
		}
		for _, t := range r.Tables() {
			f.Tables = append(f.Tables, api.FIBTable{Number: t.Number, Kernel: t.Kernel, Stats: t.Stats, Bytes: t.Stats.Bytes()})
		}
	})
	return f, err
}

func (r *routing) wait() { r.tasks.Wait() }

var _ kernel.RouteSink = (*route.Service)(nil)
