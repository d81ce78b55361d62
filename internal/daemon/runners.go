package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// runners are the effectful halves of all features, in their order.
type runners struct {
	list  []running
	retry <-chan time.Time // a round is due, because one failed
}

// running is one runner.
type running struct {
	Name string
	runner.Runner
	fault  *task.OnChange
	failed *atomic.Pointer[error] // of the last Apply; nil: it did not fail
}

// retryAfter is the pause before a round is tried again for runners that failed.
const retryAfter = 2 * time.Second

func startRunners(ctx context.Context, d runner.Doors) (r runners) {
	for _, x := range features.All() {
		if x.Run != nil {
			r.list = append(r.list, running{x.Name, x.Run(ctx, d), &task.OnChange{}, new(atomic.Pointer[error])})
		}
	}
	return r
}

// prepare makes runners release the tables that the next configuration replaces.
func (r *runners) prepare(next *config.File) {
	for _, x := range r.list {
		if p, ok := x.Runner.(runner.Preparer); ok {
			p.Prepare(next)
		}
	}
}

// apply passes a round to all runners. If one fails or panics, the others continue,
// and the round is tried again.
func (r *runners) apply(ctx context.Context, log *slog.Logger, round runner.Round) {
	r.retry = nil
	for _, x := range r.list {
		err := task.Call(func() error { return x.Apply(ctx, round) })
		x.failed.Store(nil)
		if err != nil {
			x.failed.Store(&err)
		}
		if x.fault.Changed(err) {
			if err != nil {
				log.Error("feature degraded, weft tries again", "feature", x.Name, "error", err)
			} else {
				log.Info("feature works again", "feature", x.Name)
			}
		}
		if err != nil {
			r.retry = time.After(retryAfter)
		}
	}
}

// close ends them in the opposite order.
func (r *runners) close(log *slog.Logger) {
	for i := len(r.list) - 1; i >= 0; i-- {
		if err := task.Call(r.list[i].Close); err != nil {
			log.Error("feature did not close", "feature", r.list[i].Name, "error", err)
		}
	}
}

// health returns the health of all features. One that does not answer in time, or
// whose Apply failed without a report of its own, is degraded.
func (r *runners) health(ctx context.Context) (list []state.Health) {
	for _, x := range r.list {
		own := x.status(ctx)
		if err := x.failed.Load(); err != nil && !slices.ContainsFunc(own, func(h state.Health) bool { return h.Condition != state.Working }) {
			own = append(own, state.HealthOf(x.Name, "", *err, "weft tries again by itself; its log has the details"))
		}
		list = append(list, own...)
	}
	return list
}

// statusIn is how long a runner may take to report its health.
const statusIn = time.Second

func (x running) status(ctx context.Context) (own []state.Health) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusIn, fmt.Errorf("no answer within %s", statusIn))
	defer cancel()
	err := task.Call(func() error { own = x.Status(ctx); return context.Cause(ctx) })
	if err != nil {
		own = append(own, state.HealthOf(x.Name, "", err, "restart weft if it stays so: forwarding goes on meanwhile"))
	}
	return own
}

// find returns the runner that implements T.
func find[T any](r runners) (found T) {
	for _, x := range r.list {
		if f, ok := x.Runner.(T); ok {
			return f
		}
	}
	return found
}
