package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/feature/host"
	"weft/internal/state"
	"weft/internal/task"
	"weft/internal/trial"
	"weft/internal/version"
)

// metricsListener is the running Prometheus listener.
type metricsListener struct {
	address string
	*task.Task
}

// core provides the nouns of weft run itself.
type core struct {
	reloadStatus *reloadStatus
	runners      runners
	unset        *unset
	metrics      *atomic.Pointer[metricsListener]
	onTrial      *atomic.Pointer[trial.Trial]
}

// Health returns the parts of the configuration that could not be set, and the
// health of all features.
func (c core) Health(ctx context.Context) []state.Health {
	list := slices.Clone(c.unset.lines())
	if m := c.metrics.Load(); m != nil {
		list = append(list, state.HealthOf("metrics", "", m.Fault(), "end the program that has the port, or set another one as metrics.listen"))
	}
	if t := c.onTrial.Load(); t != nil {
		list = append(list, t.Health())
	}
	return append(list, c.runners.health(ctx)...)
}

// Status is the row of weft show status.
func (c core) Status(ctx context.Context) host.Status {
	status := c.reloadStatus.get()
	status.Faults = state.Faults(c.Health(ctx))
	return status
}

// standing is the configuration in force, and why the file's is not in force.
type reloadStatus struct {
	mu     sync.Mutex
	status host.Status
}

func (s *reloadStatus) get() host.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// changed counts the steps of a round.
func (s *reloadStatus) changed(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Steps += steps
}

// applied and refused record the result of reading a file.
func (s *reloadStatus) applied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Applied, s.status.Refused = time.Now(), nil
}

func (s *reloadStatus) refused(why ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Refused = &host.Refusal{At: time.Now(), Why: why}
}

// words is the line for systemctl status: the refused reload, else the first fault.
func (s *reloadStatus) words(faults []state.Health) string {
	if status := s.get(); status.Refused != nil {
		return fmt.Sprintf("the last reload was refused, the configuration of %s is in force (weft show status says why)", status.Applied.Format(time.DateTime))
	}
	switch len(faults) {
	case 0:
		return ""
	case 1:
		return faults[0].String()
	}
	return fmt.Sprintf("%s; and %d more (weft show health)", faults[0], len(faults)-1)
}

// errorsOf returns the errors of a file, without its warnings; if there are none,
// the warnings, for which it was refused.
func errorsOf(problems []state.Problem) (why []string) {
	errors := state.HasErrors(problems)
	for _, p := range problems {
		if !errors || p.Severity == state.Error {
			why = append(why, p.String())
		}
	}
	return why
}

func newReloadStatus(file string) *reloadStatus {
	now := time.Now()
	return &reloadStatus{status: host.Status{Version: version.String(), PID: os.Getpid(), File: file, Started: now, Applied: now}}
}

func (d *daemon) listen(ctx context.Context, f *config.File) error {
	if err := api.Serve(ctx, d.router.Place.Socket(), d.registry(), find[api.Subscribers](d.runners), d); err != nil {
		return err
	}
	d.listenMetrics(ctx, f)
	return nil
}

// listenMetrics applies the configured listener. If it cannot listen it tries again:
// the router works without it.
func (d *daemon) listenMetrics(ctx context.Context, f *config.File) {
	address := ""
	if listen := f.Metrics().Listen; listen.IsValid() {
		address = listen.String()
	}
	was := d.metrics.Load()
	if was != nil {
		if was.address == address {
			return
		}
		was.Stop()
		d.metrics.Store(nil)
	}
	if address == "" {
		return
	}
	d.metrics.Store(&metricsListener{address, task.Keep(ctx, task.Kept{
		Name: "metrics", Log: d.Log, Retry: task.Retry{First: time.Second, Most: 30 * time.Second},
		Run: func(ctx context.Context, works func()) error {
			if err := api.ServeMetrics(ctx, address, d.registry()); err != nil {
				return err
			}
			works()
			<-ctx.Done()
			return nil
		},
	})})
}
