package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"weft/internal/api"
	"weft/internal/bus"
	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/failover"
	"weft/internal/feature/nat64"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// sharing keeps [failover] running: the bus, and the service between it and the
// tables.
type sharing struct {
	log    *slog.Logger
	router *Router

	mu      sync.Mutex // the API reads while a reload changes
	running *sharer
	said    string // the last complaint, not to repeat it
}

// shareSettings is what a sharer is started with: another one needs another
// sharer.
type shareSettings struct {
	bus         bus.Settings
	translators map[string]int
	tables      uint64 // which they are
}

type sharer struct {
	settings shareSettings
	log      *slog.Logger
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	table    *datapath.Sharer
	bus      *bus.Bus

	mu      sync.Mutex // guards the service
	service *failover.Service
	away    map[string]string // peers that cannot be read, and why: said once
}

// shareTick is how often changes are looked for.
const shareTick = 20 * time.Millisecond

// set starts, changes or stops sharing so that it is that of f. Without it
// packets are translated all the same.
func (s *sharing) set(ctx context.Context, f *config.File, facts state.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := failover.From(f)
	if c == nil {
		s.stop()
		return
	}
	err := s.follow(ctx, f, c, facts)
	if err == nil {
		s.said = ""
		return
	}
	if s.said != err.Error() {
		s.log.Error("sessions are not shared", "error", err)
	}
	s.said = err.Error()
}

func (s *sharing) follow(ctx context.Context, f *config.File, c *failover.Config, facts state.Facts) error {
	table, err := s.router.datapath.Sharer()
	if err != nil {
		return err
	}
	settings, err := s.settings(f, c, facts, table)
	if err != nil || s.running != nil && reflect.DeepEqual(s.running.settings, settings) {
		table.Close()
		return err
	}
	s.stop()
	s.running = s.start(ctx, settings, table)
	return nil
}

func (s *sharing) settings(f *config.File, c *failover.Config, facts state.Facts, table *datapath.Sharer) (shareSettings, error) {
	b := bus.Settings{
		Name: c.Name, Listen: c.Listen, Cluster: c.Cluster, Dir: filepath.Join(s.router.Place.Run, "failover"), Bytes: int64(c.StreamMiB) << 20,
		Keys: keysOf(c),
	}
	for _, p := range c.Peers {
		b.Peers = append(b.Peers, bus.Peer{Name: p.Name, Address: p.Address})
	}
	translators := map[string]int{}
	for _, name := range failover.Shared(f, nat64.Sharable(f)) {
		id, ok := nat64.ID(facts, name)
		if !ok {
			return shareSettings{}, fmt.Errorf("share nat64.%s: it is not there", name)
		}
		translators[name] = id
	}
	identity, err := table.Identity()
	return shareSettings{b, translators, identity}, err
}

func (s *sharing) start(ctx context.Context, settings shareSettings, table *datapath.Sharer) *sharer {
	ctx, cancel := context.WithCancel(ctx)
	r := &sharer{settings: settings, log: s.log, cancel: cancel, table: table, away: map[string]string{}}
	r.bus = bus.Open(ctx, settings.bus, s.log)
	o := failover.Options{
		Name: settings.bus.Name, Translators: settings.translators, Table: sharedTable{table}, Stream: r.bus,
		Fresh: !s.settled(settings.tables), Settled: func() { s.settle(settings.tables) },
	}
	for _, p := range settings.bus.Peers {
		o.Peers = append(o.Peers, p.Name)
	}
	r.service = failover.NewService(o)
	r.tasks.Go(func() { r.run(ctx) })
	return r
}

func (s *sharing) stop() {
	if s.running != nil {
		s.running.close()
		s.running = nil
	}
}

// wait stops sharing and waits until it has.
func (s *sharing) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (r *sharer) close() {
	r.cancel()
	r.tasks.Wait()
	r.bus.Close()
	r.table.Close()
}

func (r *sharer) run(ctx context.Context) {
	tick := time.NewTicker(shareTick)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.bus.Events():
			r.handle(e, time.Now())
		case now := <-tick.C:
			err := r.tick(now)
			if err != nil && err.Error() != said {
				r.log.Error("sharing of sessions", "error", err)
				said = err.Error()
			}
		}
	}
}

func (r *sharer) tick(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.service.Tick(now)
	return r.service.Err()
}

func (r *sharer) handle(e bus.Event, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Opened != nil:
		r.service.Opened()
	case e.Asked != nil:
		r.service.Asked(e.Asked.Peer)
	case e.Message != nil:
		r.service.Received(e.Message.Peer, e.Message.Data, e.Message.Missed, e.Message.Behind, now)
	case e.Joined != nil:
		delete(r.away, e.Joined.Peer)
		r.log.Info("reading sessions of peer", "peer", e.Joined.Peer)
		r.service.Joined(e.Joined.Peer, e.Joined.Seamless, now)
	case e.Left != nil:
		r.service.Left(e.Left.Peer, e.Left.Err, now)
		if why := fmt.Sprint(e.Left.Err); r.away[e.Left.Peer] != why {
			r.log.Warn("no sessions of peer", "peer", e.Left.Peer, "error", e.Left.Err)
			r.away[e.Left.Peer] = why
		}
	}
}

// sharedTable gives a listing the form that the service wants.
type sharedTable struct{ *datapath.Sharer }

func (t sharedTable) List() func(func(state.ListedSession)) (bool, error) {
	return t.Sharer.List().Next
}

// settledFile says which tables have been brought up to what the peers had.
func (s *sharing) settledFile() string { return filepath.Join(s.router.Place.Run, "failover.json") }

type settled struct {
	Tables uint64 `json:"tables"`
}

func (s *sharing) settled(tables uint64) bool {
	var was settled
	found, err := statefile.Read(s.settledFile(), &was)
	if err != nil {
		s.log.Warn("the peers are asked for all sessions", "error", err)
	}
	return found && err == nil && was.Tables == tables
}

func (s *sharing) settle(tables uint64) {
	if err := statefile.Write(s.settledFile(), settled{tables}); err != nil {
		s.log.Warn("the next weft run will not know that it has its peers' sessions", "error", err)
	}
}

// status gives what the API shows, nil if nothing is shared.
func (s *sharing) status() *api.Failover {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running
	if r == nil {
		return nil
	}
	stream := r.bus.Status(context.Background())
	f := &api.Failover{Stream: api.Stream{
		Open: stream.Open, Clients: stream.Clients, Messages: stream.Messages, Bytes: stream.Bytes, Limit: r.settings.bus.Bytes, Refused: stream.Refused,
	}}
	if stream.Err != nil {
		f.Stream.Error = stream.Err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Status = r.service.Status()
	return f
}
