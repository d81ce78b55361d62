package routerun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weft/internal/feature/route"
	"weft/internal/kernel/nlconn"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/task"
)

// mirror keeps weft's route tables what the kernel's are: it carries the
// kernel's news to the service, and what the service wants to the kernel.
type mirror struct {
	log     *slog.Logger
	feed    *rtnetlink.Feed
	service *route.Service
	tables  route.Tables
	ready   func() error // called once the tables are complete, to put them to use
	ask     task.Mailbox[*route.Service]
	resyncs atomic.Uint64 // how often all routes were listed
	state   mirrorState
	rebuild time.Duration // when a table has no room: how long until the next try with empty ones
}

// mirrorState is what only the mirror's own goroutine touches.
type mirrorState struct {
	complete bool
	grace    chan error    // a grace period under way
	mark     route.Mark    // what it makes free
	said     [2]string     // of why a family is left to the kernel
	listed   time.Time     // when the last listing ended
	changes6 uint64        // of IPv6, by then
	pause    time.Duration // before the next listing that is only for certainty
	fitted   bool          // the first dump had room
}

// errNoRoom ends a mirror whose tables have no room: the next one has empty tables.
var errNoRoom = errors.New("a route table has no room; the tables are built again")

const (
	// eventsAtOnce bounds the pieces of news between two looks at all else.
	eventsAtOnce = 256
	// resyncAfter is the pause before routes are listed again that may have
	// gone without news: links go down in groups.
	resyncAfter = 200 * time.Millisecond
	// The kernel's listing of IPv6 routes may leave some out while others come
	// and go (net/ipv6/ip6_fib.c, fib6_dump_table, counts its way back after a
	// change). So it is repeated if there were such news within aftermath, after
	// a pause that grows.
	aftermath = 100 * time.Millisecond
	pauseMin  = time.Second
	pauseMax  = time.Minute
	// resolveAtOnce bounds the questions for neighbours each resolveEvery.
	resolveAtOnce = 128
	resolveEvery  = 100 * time.Millisecond
)

func newMirror(log *slog.Logger, feed *rtnetlink.Feed, s *route.Service, tables route.Tables, ready func() error) *mirror {
	return &mirror{log: log, feed: feed, service: s, tables: tables, ready: ready,
		ask: task.NewMailbox[*route.Service]()}
}

// run mirrors until ctx ends.
func (m *mirror) run(ctx context.Context) error {
	defer m.ask.Close()
	g := task.NewGroup(ctx)
	g.Go(func(ctx context.Context) error { m.feed.Follow(ctx); return nil })
	ctx = g.Context()
	defer func() {
		_ = g.Stop() // what made Follow fail ended ctx
		if m.state.grace != nil {
			<-m.state.grace // it must not outlive the tables
		}
	}()
	if err := m.sync(ctx); err != nil {
		return ended(ctx, err)
	}
	resolve := time.NewTicker(resolveEvery)
	defer resolve.Stop()
	var due, later, rebuild <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-m.ask.Asked():
			f(m.service)
		case err := <-m.state.grace:
			if err != nil {
				return err
			}
			m.state.grace = nil
			m.service.Release(m.state.mark)
		case <-m.feed.Wake():
			if err := m.deliver(ctx); err != nil {
				return ended(ctx, err)
			}
		case <-due:
			due = nil
			if err := m.sync(ctx); err != nil {
				return ended(ctx, err)
			}
		case <-later:
			later = nil
			m.service.RoutesMayBeGone()
		case <-rebuild:
			return errNoRoom
		case <-resolve.C:
			m.resolve(ctx)
		}
		if err := m.service.Err(); err != nil {
			return err
		}
		if rebuild == nil && m.service.NoRoom() {
			rebuild = time.After(m.rebuild)
		}
		m.seal()
		m.say()
		if due == nil && m.service.Stale() {
			due = time.After(resyncAfter)
		}
		if later == nil && m.uncertain() {
			later = time.After(m.state.pause)
		}
	}
}

// catchUp brings the tables to what the kernel has now: for who does not run the
// mirror, but looks when it has to know.
func (m *mirror) catchUp(ctx context.Context) error {
	for tries := 0; tries == 0 || m.service.Stale() && tries < 5; tries++ {
		if tries > 0 {
			if err := m.sync(ctx); err != nil {
				return err
			}
		}
		if err := m.feed.Take(); err != nil {
			return err
		}
		if err := m.deliver(ctx); err != nil {
			return err
		}
	}
	for m.seal(); m.state.grace != nil; m.seal() {
		if err := <-m.state.grace; err != nil {
			return err
		}
		m.state.grace = nil
		m.service.Release(m.state.mark)
	}
	return m.service.Err()
}

// uncertain tells, once for each listing, whether IPv6 routes changed during it.
func (m *mirror) uncertain() bool {
	if m.state.listed.IsZero() {
		return false
	}
	if m.service.Changes6() != m.state.changes6 {
		m.state.listed = time.Time{}
		m.state.pause = min(max(pauseMin, 2*m.state.pause), pauseMax)
		return true
	}
	if time.Since(m.state.listed) > aftermath {
		m.state.listed, m.state.pause = time.Time{}, 0
	}
	return false
}

// ended leaves out errors that only say that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sync lists all that the kernel has. It is tried again when news were lost
// meanwhile: they are what a listing cannot make up for.
func (m *mirror) sync(ctx context.Context) error {
	begin := time.Now()
	m.service.Begin()
	if err := m.feed.Dump(ctx, m.service); err != nil {
		m.service.Abandon()
		if ctx.Err() != nil {
			return err
		}
		m.log.Warn("cannot dump the routes; weft tries again", "error", err)
		return nil
	}
	listed := time.Since(begin)
	if err := m.service.End(); err != nil {
		return err
	}
	m.resyncs.Add(1)
	m.state.listed, m.state.changes6 = time.Now(), m.service.Changes6()
	s := m.service.Status()
	m.log.Info("routes mirrored", "ipv4", s.Prefixes4, "ipv6", s.Prefixes6, "listed", listed.Round(time.Millisecond), "took", time.Since(begin).Round(time.Millisecond))
	if err := m.deliver(ctx); err != nil {
		return err
	}
	if m.state.complete {
		return nil
	}
	m.state.complete, m.state.fitted = true, !m.service.NoRoom()
	if err := m.ready(); err != nil {
		return fmt.Errorf("put the route tables to use: %w", err)
	}
	return nil
}

// deliver gives the service the news that wait.
func (m *mirror) deliver(ctx context.Context) error {
	for {
		more, err := m.feed.Deliver(ctx, m.service, eventsAtOnce)
		if errors.Is(err, nlconn.ErrEventsLost) {
			m.log.Warn("route events were lost; all routes are dumped again")
			m.service.RoutesMayBeGone()
			return nil
		}
		if err != nil || !more || ctx.Err() != nil {
			return err
		}
		m.seal()
		select {
		case err := <-m.state.grace:
			if err != nil {
				return err
			}
			m.state.grace = nil
			m.service.Release(m.state.mark)
		default:
		}
	}
}

// seal starts a grace period, in the background, unless one is under way.
func (m *mirror) seal() {
	if m.state.grace != nil {
		return
	}
	mark, some := m.service.Seal()
	if !some {
		return
	}
	m.state.grace, m.state.mark = task.Beside(m.tables.Grace), mark
}

// resolve makes the kernel ask for neighbours that packets go to. That one
// cannot be asked for (its device went just now) is no fault.
func (m *mirror) resolve(ctx context.Context) {
	for _, n := range m.service.Unresolved(resolveAtOnce) {
		if err := m.feed.Resolve(ctx, n); err != nil {
			m.log.Debug("cannot probe neighbour", "address", n.Addr, "error", err)
		}
	}
}

// say tells when a family is left to the kernel, and when that ends.
func (m *mirror) say() {
	now := m.service.Suspended()
	for i, why := range now {
		family := [...]string{"IPv4", "IPv6"}[i]
		switch {
		case why == m.state.said[i]:
		case why != "":
			m.log.Warn("routing is left to the kernel", "family", family, "why", why)
		default:
			m.log.Info("routing by weft's own table again", "family", family)
		}
	}
	m.state.said = now
}

// with runs f with the service, in the mirror's goroutine.
func (m *mirror) with(ctx context.Context, f func(*route.Service)) error {
	if err := m.ask.Ask(ctx, f); !errors.Is(err, task.ErrEnded) {
		return err
	}
	return errors.New("the mirror of the routes has just ended")
}
