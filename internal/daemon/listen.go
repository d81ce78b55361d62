package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/state"
	"weft/internal/version"
)

// metricsListener is the Prometheus listener that runs now.
type metricsListener struct {
	address string
	cancel  context.CancelFunc
}

// source is the daemon as the API sees it.
type source struct {
	standing *standing
	runners  runners
	nameServer
	adverts
	sessionSync
	api.RouteSource
	api.OffloadSource
	api.AccessSource
}

type (
	nameServer  interface{ DNS64() *api.DNS64 }
	adverts     interface{ Adverts() []api.Advert }
	sessionSync interface{ Failover() *api.Failover }
	blockList   interface{ BlockList() *api.BlockList }
)

// standing is which configuration is in force, and why it is not the file's.
type standing struct {
	mu     sync.Mutex
	status api.Status
}

func (s *standing) get() api.Status {
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
	s.status.Refused = &api.Refusal{At: time.Now(), Why: why}
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

func (s source) Status() api.Status {
	status := s.standing.get()
	status.BlockList = find[blockList](s.runners).BlockList()
	return status
}

func newStanding(file string) *standing {
	now := time.Now()
	return &standing{status: api.Status{Version: version.String(), PID: os.Getpid(), File: file, Started: now, Applied: now}}
}

func (d *daemon) source() source {
	return source{
		d.standing, d.runners, find[nameServer](d.runners), find[adverts](d.runners), find[sessionSync](d.runners),
		find[api.RouteSource](d.runners), find[api.OffloadSource](d.runners), find[api.AccessSource](d.runners),
	}
}

func (d *daemon) listen(ctx context.Context, f *config.File) error {
	if err := api.Serve(ctx, d.router.Place.Socket(), d.registry(), d.source()); err != nil {
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
	if err := api.ServeMetrics(ctx, address, d.registry(), d.source()); err != nil {
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
