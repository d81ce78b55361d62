package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/feature/host"
	"weft/internal/state"
	"weft/internal/version"
)

// metricsListener is the Prometheus listener that runs now.
type metricsListener struct {
	address string
	cancel  context.CancelFunc
}

// core is what weft run has to show of itself.
type core struct {
	standing *standing
	runners  runners
}

// blockLister is the runner that has the block list: how many entries are in
// force, and as of when; false: nothing is guarded.
type blockLister interface {
	InForce() (entries int, commands time.Time, is bool)
}

// Health says how all features are doing.
func (c core) Health(ctx context.Context) []state.Health { return c.runners.health(ctx) }

// Status is the row of weft show status.
func (c core) Status() host.Status {
	status := c.standing.get()
	if entries, commands, is := find[blockLister](c.runners).InForce(); is {
		status.BlockList = &host.BlockList{Entries: entries, Commands: commands}
	}
	return status
}

// standing is which configuration is in force, and why it is not the file's.
type standing struct {
	mu     sync.Mutex
	status host.Status
}

func (s *standing) get() host.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// applied and refused are what becomes of a file that is read.
func (s *standing) applied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Applied, s.status.Refused = time.Now(), nil
}

func (s *standing) refused(why ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Refused = &host.Refusal{At: time.Now(), Why: why}
}

// words says it for systemctl status, in a line.
func (s *standing) words() string {
	status := s.get()
	if status.Refused == nil {
		return ""
	}
	return fmt.Sprintf("the last reload was refused, the configuration of %s is in force (weft show status says why)", status.Applied.Format(time.DateTime))
}

// refusedFor is refused with the mistakes of a file.
func (s *standing) refusedFor(problems []state.Problem) {
	var why []string
	for _, p := range problems {
		if p.Severity == state.Error {
			why = append(why, p.String())
		}
	}
	s.refused(why...)
}

func newStanding(file string) *standing {
	now := time.Now()
	return &standing{status: host.Status{Version: version.String(), PID: os.Getpid(), File: file, Started: now, Applied: now}}
}

func (d *daemon) listen(ctx context.Context, f *config.File) error {
	if err := api.Serve(ctx, d.router.Place.Socket(), d.registry(), find[api.Subscribers](d.runners)); err != nil {
		return err
	}
	return d.listenMetrics(ctx, f)
}

func (d *daemon) listenMetrics(ctx context.Context, f *config.File) error {
	address := ""
	if listen := f.Metrics().Listen; listen.IsValid() {
		address = listen.String()
	}
	if d.metrics != nil {
		if d.metrics.address == address {
			return nil
		}
		d.metrics.cancel()
		d.metrics = nil
	}
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := api.ServeMetrics(ctx, address, d.registry()); err != nil {
		cancel()
		return err
	}
	d.metrics = &metricsListener{address, cancel}
	return nil
}

// relisten follows a reload; a listener that cannot be had is logged, because
// the router itself works without it.
func (d *daemon) relisten(ctx context.Context) {
	if err := d.listenMetrics(ctx, d.file); err != nil {
		d.Log.Error("no metrics", "error", err)
	}
}
