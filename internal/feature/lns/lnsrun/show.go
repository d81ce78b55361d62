package lnsrun

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/feature/lns"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// rowsAtATime is how many sessions one request to the loop reads; others get their turn in between.
const rowsAtATime = 256

// Subscribers, Tunnels, Clients and LNSStats give copies of the engine's rows for the API.
func (r *Runner) Subscribers(ctx context.Context) iter.Seq[lns.Subscriber] {
	return func(yield func(lns.Subscriber) bool) {
		order := get(ctx, r.box, func(s *subscribers) []uint16 { return s.engine.Order() })
		for ids := range slices.Chunk(order, rowsAtATime) {
			var counted map[uint16]state.LNSCounters
			rows := get(ctx, r.box, func(s *subscribers) []subscriber.SessionRow {
				counted = s.counters(ids)
				return s.engine.Rows(ids)
			})
			for _, row := range rows {
				if !yield(lns.NewSubscriber(row, counted[row.Session])) {
					return
				}
			}
		}
	}
}

// Details returns all sessions that who matches, with their history.
func (r *Runner) Details(ctx context.Context, who string) lns.Details {
	d := lns.Details{Sessions: []lns.Detail{}}
	boot := clockBegan(time.Now())
	_ = r.box.Ask(ctx, func(s *subscribers) { // a loop that has ended has nothing to show
		sessions, ended := s.engine.Details(lns.MatchOf(who))
		d.Ended = ended
		if len(sessions) == 0 {
			return
		}
		ids := make([]uint16, 0, len(sessions))
		for _, one := range sessions {
			ids = append(ids, one.Session)
		}
		counted := s.counters(ids)
		for _, one := range sessions {
			d.Sessions = append(d.Sessions, lns.NewDetail(one, counted[one.Session], boot))
		}
	})
	return d
}

// clockBegan is the time at which the datapath's clock was zero.
func clockBegan(now time.Time) time.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return now
	}
	return now.Add(-time.Duration(t.Nano()))
}

// Sections returns the names of the [lns.NAME].
func (r *Runner) Sections(ctx context.Context) []string {
	return get(ctx, r.box, func(s *subscribers) []string {
		list := []string{}
		for _, one := range s.settings.servers {
			list = append(list, one.Name)
		}
		return list
	})
}

func (r *Runner) TunnelDetails(ctx context.Context, who string) []subscriber.TunnelDetails {
	return get(ctx, r.box, func(s *subscribers) []subscriber.TunnelDetails { return s.engine.TunnelDetails(who) })
}

func (r *Runner) Tunnels(ctx context.Context) []subscriber.TunnelRow {
	return get(ctx, r.box, func(s *subscribers) []subscriber.TunnelRow { return s.engine.Tunnels() })
}

func (r *Runner) Clients(ctx context.Context) []subscriber.ClientRow {
	return get(ctx, r.box, func(s *subscribers) []subscriber.ClientRow { return s.engine.Clients() })
}

func (r *Runner) LNSStats(ctx context.Context) subscriber.Stats {
	return get(ctx, r.box, func(s *subscribers) subscriber.Stats {
		st := s.engine.Stats()
		st.Unsent = s.unsent
		return st
	})
}

// Pools returns the use of the sections' pools, RADIUS the counters of their servers.
func (r *Runner) Pools(ctx context.Context) []subscriber.PoolRow {
	return get(ctx, r.box, func(s *subscribers) []subscriber.PoolRow { return s.engine.Pools() })
}

func (r *Runner) RADIUS(ctx context.Context) []lns.RADIUSServer {
	return get(ctx, r.box, (*subscribers).radiusRows)
}

func (s *subscribers) radiusRows() []lns.RADIUSServer {
	list := []lns.RADIUSServer{}
	clients := maps.Clone(s.accounts.clients)
	for name, r := range s.accounts.retired {
		if r.Waiting() > 0 {
			clients[name] = r.Client
		}
	}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		for _, one := range clients[name].Stats() {
			list = append(list, radiusServer(name, one))
		}
	}
	return list
}

// Disconnect ends the sessions that m matches and gives their number.
func (r *Runner) Disconnect(ctx context.Context, m subscriber.Match) int {
	return get(ctx, r.box, func(s *subscribers) int { return s.disconnect(m) })
}
