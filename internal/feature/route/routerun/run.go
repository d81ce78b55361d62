// Package routerun is the half of routing that touches the system: it mirrors
// the kernel's route tables.
package routerun

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"weft/fib"
	"weft/internal/config"
	"weft/internal/datapath/fibtable"
	"weft/internal/feature/route"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// Runner keeps one mirror running while [route] is there, and starts another
// when the tables are to be of another size or number.
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*routing]
	now   atomic.Pointer[mirror] // nil unless one runs
}

// routing is what the runner's loop owns.
type routing struct {
	want wanted
	task *task.Task // nil without [route]
}

// wanted is what makes another mirror necessary if it changes.
type wanted struct {
	tables state.RouteTables
	kernel []uint32
}

func (w wanted) equal(v wanted) bool { return w.tables == v.tables && slices.Equal(w.kernel, v.kernel) }

// wantedOf returns what f wants; no tables if it has no [route].
func wantedOf(f *config.File, facts state.Facts) wanted {
	return wanted{route.TablesOf(f), route.KernelTables(f, facts)}
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{doors: d, loop: task.StartLoop(ctx, "route", &routing{}, nil)}
}

// Apply starts, keeps or stops the mirror.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	want := wantedOf(round.File, round.Facts)
	return r.loop.Ask(ctx, func(s *routing) {
		if s.task != nil && s.want.equal(want) {
			return
		}
		s.stop() // only one may write next hops; packets go on by what it has written
		if want.tables == (state.RouteTables{}) {
			return
		}
		s.want = want
		s.task = task.Keep(ctx, task.Kept{Name: "mirror of the routes", Log: r.doors.Log, Retry: task.Retry{First: time.Second, Most: 30 * time.Second},
			Run: func(ctx context.Context, works func()) error { return r.serve(ctx, want, works) }})
	})
}

func (s *routing) stop() {
	if s.task != nil {
		s.task.Stop()
		s.task = nil
	}
}

// Status reports whether the mirror runs, and which family is left to the kernel.
func (r *Runner) Status(ctx context.Context) []state.Health {
	running, fault := false, error(nil)
	_ = r.loop.Ask(ctx, func(s *routing) {
		if running = s.task != nil; running {
			fault = s.task.Fault()
		}
	})
	if !running {
		return nil
	}
	list := []state.Health{state.HealthOf("route", "", fault, "packets follow the routes mirrored last; weft starts again by itself")}
	var suspended [2]string
	if m := r.now.Load(); m != nil && m.with(ctx, func(s *route.Service) { suspended = s.Suspended() }) == nil {
		for i, why := range suspended {
			if why != "" {
				list = append(list, state.Health{Feature: "route", Name: [...]string{"IPv4", "IPv6"}[i], Condition: state.Degraded, Because: why, Remedy: "the kernel routes this family; remove the cause above. weft tries again by itself"})
			}
		}
	}
	return list
}

// Close stops the mirror; packets go on by what it has written.
func (r *Runner) Close() error {
	task.Close(r.loop).stop()
	return nil
}

// serve runs a mirror until ctx ends or it fails.
func (r *Runner) serve(ctx context.Context, want wanted, works func()) error {
	defer r.now.Store(nil)
	return mirrorInTurn(ctx, func() (*mirror, func() error, error) { return openMirror(r.doors, want) }, func(m *mirror) {
		r.now.Store(m)
		works()
	})
}

// How long a mirror whose tables have no room goes on before the next one tries with empty
// tables: longer each time, unless the routes had room once.
const (
	rebuildFirst = 2 * time.Second
	rebuildMost  = 10 * time.Minute
)

// mirrorInTurn runs mirrors, the next one when a table of the one before has no room: a
// table that was changed for long may be full of gaps, or routes may have gone since.
func mirrorInTurn(ctx context.Context, open func() (*mirror, func() error, error), runs func(*mirror)) error {
	for pause := rebuildFirst; ; {
		m, done, err := open()
		if err != nil {
			return err
		}
		m.rebuild = pause
		runs(m)
		err = m.run(ctx)
		if failed := done(); failed != nil || !errors.Is(err, errNoRoom) {
			return errors.Join(err, failed)
		}
		if pause = min(2*pause, rebuildMost); m.state.fitted {
			pause = rebuildFirst
		}
		m.log.Info("the route tables are built again: one had no room")
	}
}

// openMirror makes a mirror with tables of a new generation, which it puts to
// use when they are complete. It does nothing yet.
func openMirror(d runner.Doors, want wanted) (m *mirror, done func() error, err error) {
	routes, err := fibtable.Of(d.Datapath).Routes()
	if err != nil {
		return nil, nil, err
	}
	service, err := newService(routes, want.kernel)
	if err != nil {
		return nil, nil, errors.Join(err, routes.Close())
	}
	feed, err := rtnetlink.OpenFeed()
	if err != nil {
		return nil, nil, errors.Join(err, routes.Close())
	}
	done = func() error {
		feed.Close()
		return routes.Close()
	}
	return newMirror(d.Log, feed, service, routes, routes.Publish), done, nil
}

// newService makes a service on the tables of a new generation.
func newService(routes *fibtable.Routes, kernelTables []uint32) (*route.Service, error) {
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
func (r *Runner) with(ctx context.Context, f func(*route.Service)) error {
	m, err := r.running(ctx)
	if err != nil {
		return err
	}
	return m.with(ctx, f)
}

// running is the mirror that runs now.
func (r *Runner) running(ctx context.Context) (*mirror, error) {
	if m := r.now.Load(); m != nil {
		return m, nil
	}
	if !task.Get(ctx, r.loop, func(s *routing) bool { return s.task != nil }) {
		return nil, errors.New("the daemon does not route: weft.toml has no [route]")
	}
	return nil, errors.New("the mirror of the routes is not running; the log says why")
}

// Mirror returns how the mirror is doing, for the metrics.
func (r *Runner) Mirror(ctx context.Context) (route.Mirror, error) {
	m, err := r.running(ctx)
	if err != nil {
		return route.Mirror{}, err
	}
	// before the mirror is asked: it answers when no news wait
	out := route.Mirror{Dumps: m.resyncs.Load(), Behind: m.feed.Behind()}
	busy := m.with(ctx, func(s *route.Service) {
		status := s.Status()
		out.Status = &status
	})
	if busy != nil && ctx.Err() == nil {
		return out, busy
	}
	return out, nil
}

// Explain takes a lookup apart, for the API.
func (r *Runner) Explain(ctx context.Context, table int, a netip.Addr) (e fib.Explanation, err error) {
	failed := r.with(ctx, func(s *route.Service) { e, err = s.Explain(table, a) })
	return e, errors.Join(failed, err)
}

// FIB returns the statistics of the tables and what the mirror holds, for the API.
func (r *Runner) FIB(ctx context.Context) (f route.FIB, err error) {
	err = r.with(ctx, func(s *route.Service) {
		status := s.Status()
		f.Mirror = &status
		for i, why := range status.Suspended {
			if why != "" {
				if f.Suspended == nil {
					f.Suspended = map[string]string{}
				}
				f.Suspended[[...]string{"IPv4", "IPv6"}[i]] = why
			}
		}
		for _, t := range s.Tables() {
			f.Tables = append(f.Tables, route.FIBTable{Number: t.Number, Kernel: t.Kernel, Stats: t.Stats, Bytes: t.Stats.Bytes()})
		}
	})
	return f, err
}

var _ rtnetlink.Sink = (*route.Service)(nil)
