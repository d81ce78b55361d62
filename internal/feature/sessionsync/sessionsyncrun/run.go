// Package sessionsyncrun is the half of session sharing that touches the system:
// the bus, and the loop between it and the tables.
package sessionsyncrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"time"

	"weft/internal/bus"
	"weft/internal/config"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/sessionsync"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// Runner keeps [session_sync] running.
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*sharing]
}

// sharing is what the runner's loop owns.
type sharing struct {
	doors   runner.Doors
	running *sharer
	used    bool
	fault   error
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
	loop     *task.Task
	box      task.Mailbox[*sessionsync.Service]
	table    *nat64table.Sharer
	bus      *bus.Bus
	service  *sessionsync.Service // the loop's
	away     map[string]string    // peers that cannot be read, and why: logged once
	guard    task.Guard
}

// shareTick is how often changes are looked for.
const shareTick = 20 * time.Millisecond

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{d, task.StartLoop(ctx, "failover", &sharing{doors: d}, nil)}
}

// Apply starts, changes or stops sharing. Without it packets are translated all
// the same.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Do(ctx, func(s *sharing) error {
		c := sessionsync.From(round.File)
		s.used, s.fault = c != nil, nil
		if c == nil {
			s.stop()
			return nil
		}
		if err := s.follow(ctx, round.File, c, round.Facts); err != nil {
			s.fault = fmt.Errorf("sessions are not shared: %w", err)
		}
		return s.fault
	})
}

// Status reports whether sessions are shared.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(s *sharing) []state.Health {
		if !s.used {
			return nil
		}
		fault := s.fault
		if s.running != nil && fault == nil {
			fault = errors.Join(s.running.bus.Fault(), s.running.loop.Fault(), s.running.guard.Fault())
		}
		return []state.Health{state.HealthOf("session_sync", "", fault, "this router has only its own sessions; weft tries again by itself")}
	})
}

// Close stops sharing and waits until it has ended.
func (r *Runner) Close() error {
	task.Close(r.loop).stop()
	return nil
}

func (s *sharing) follow(ctx context.Context, f *config.File, c *sessionsync.Config, facts state.Facts) error {
	table, err := nat64table.Of(s.doors.Datapath).Sharer()
	if err != nil {
		return err
	}
	settings, err := s.settings(c, facts, table)
	if err != nil || s.running != nil && reflect.DeepEqual(s.running.settings, settings) {
		table.Close()
		return err
	}
	s.stop()
	s.running = s.start(ctx, settings, table)
	return nil
}

func (s *sharing) settings(c *sessionsync.Config, facts state.Facts, table *nat64table.Sharer) (shareSettings, error) {
	b := bus.Settings{
		Name: c.Name, Listen: c.Listen, Cluster: c.Cluster, Dir: filepath.Join(s.doors.Paths.Run, "failover"), Bytes: int64(c.StreamMiB) << 20,
		Keys: keysOf(c),
	}
	for _, p := range c.Peers {
		b.Peers = append(b.Peers, bus.Peer{Name: p.Name, Address: p.Address})
	}
	translators := map[string]int{}
	for _, name := range facts.Shared {
		id, ok := facts.SharableIDs[name]
		if !ok {
			return shareSettings{}, fmt.Errorf("share nat64.%s: it is not there", name)
		}
		translators[name] = id
	}
	identity, err := table.Identity()
	return shareSettings{b, translators, identity}, err
}

func (s *sharing) start(ctx context.Context, settings shareSettings, table *nat64table.Sharer) *sharer {
	r := &sharer{settings: settings, log: s.doors.Log, box: task.NewMailbox[*sessionsync.Service](), table: table, away: map[string]string{}}
	r.bus = bus.Open(ctx, settings.bus, r.log)
	o := sessionsync.Options{
		Name: settings.bus.Name, Translators: settings.translators, Table: sharedTable{table}, Stream: r.bus,
		Fresh: !s.inSync(settings.tables), InSync: func() { s.settle(settings.tables) },
	}
	for _, p := range settings.bus.Peers {
		o.Peers = append(o.Peers, p.Name)
	}
	r.service = sessionsync.NewService(o)
	r.loop = task.Keep(ctx, task.Kept{Name: "sharing of sessions", Log: r.log, Run: r.run})
	return r
}

func (s *sharing) stop() {
	if s.running != nil {
		s.running.close()
		s.running = nil
	}
}

func (r *sharer) close() {
	r.loop.Stop()
	r.box.Close()
	r.bus.Close()
	r.table.Close()
}

// run carries messages between the bus and the tables until ctx ends.
func (r *sharer) run(ctx context.Context, works func()) error {
	tick := time.NewTicker(shareTick)
	defer tick.Stop()
	var logged task.OnChange
	works()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.bus.Events():
			r.guard.Do("event of a peer", content(e), func() { r.handle(e, time.Now()) })
		case f := <-r.box.Asked():
			f(r.service)
		case now := <-tick.C:
			r.guard.Run("session synchronisation", func() { r.service.Tick(now) })
			if err := r.service.Err(); logged.Changed(err) && err != nil {
				r.log.Error("session synchronisation", "error", err)
			}
		}
	}
}

// content is what a peer has sent, if an event is that.
func content(e bus.Event) []byte {
	if e.Message == nil {
		return nil
	}
	return e.Message.Data
}

func (r *sharer) handle(e bus.Event, now time.Time) {
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
			r.log.Warn("cannot read the sessions of peer", "peer", e.Left.Peer, "error", e.Left.Err)
			r.away[e.Left.Peer] = why
		}
	}
}

// sharedTable gives a listing the form that the service wants.
type sharedTable struct{ *nat64table.Sharer }

func (t sharedTable) List() func(func(state.ListedSession)) (bool, error) {
	return t.Sharer.List().Next
}

// inSyncFile returns which tables have been brought up to what the peers had.
func (s *sharing) inSyncFile() string { return filepath.Join(s.doors.Paths.Run, "failover.json") }

type inSync struct {
	Tables uint64 `json:"tables"`
}

func (s *sharing) inSync(tables uint64) bool {
	var was inSync
	found, err := statefile.Cache(s.inSyncFile(), &was)
	if err != nil {
		s.doors.Log.Warn("cannot read the session-sync state; all sessions are requested from the peers", "error", err)
	}
	return found && err == nil && was.Tables == tables
}

func (s *sharing) settle(tables uint64) {
	if err := statefile.Write(s.inSyncFile(), inSync{tables}); err != nil {
		s.doors.Log.Warn("cannot save the session-sync state; the next weft run requests all sessions from its peers", "error", err)
	}
}

// Sharing returns what the API shows, nil if nothing is shared.
func (r *Runner) Sharing() *sessionsync.Row {
	ctx := context.Background()
	running := task.Get(ctx, r.loop, func(s *sharing) *sharer { return s.running })
	if running == nil {
		return nil
	}
	stream := running.bus.Status()
	f := &sessionsync.Row{Stream: sessionsync.StreamRow{
		Open: stream.Open, Clients: stream.Clients, Messages: stream.Messages, Bytes: stream.Bytes, Limit: running.settings.bus.Bytes, Refused: stream.Refused,
	}}
	if stream.Err != nil {
		f.Stream.Error = stream.Err.Error()
	}
	if running.box.Ask(ctx, func(s *sessionsync.Service) { f.Status = s.Status() }) != nil {
		return nil // it has just ended
	}
	return f
}
