package accessrun

import (
	"iter"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/feature/access"
)

// rowsAtATime is how many sessions are looked at at once, while others wait.
const rowsAtATime = 256

// Subscribers, Tunnels, Clients and AccessStats are what the API shows.
func (s *subscribers) Subscribers() iter.Seq[access.Subscriber] {
	return func(yield func(access.Subscriber) bool) {
		s.mu.Lock()
		order := s.engine.Order()
		s.mu.Unlock()
		for ids := range slices.Chunk(order, rowsAtATime) {
			s.mu.Lock()
			rows := s.engine.Rows(ids)
			s.mu.Unlock()
			counted := s.counters(ids)
			for _, r := range rows {
				if !yield(access.NewSubscriber(r, counted[r.Session])) {
					return
				}
			}
		}
	}
}

// Details tells all of somebody's sessions.
func (s *subscribers) Details(who string) access.Details {
	s.mu.Lock()
	sessions, ended := s.engine.Details(access.MatchOf(who))
	s.mu.Unlock()
	d := access.Details{Sessions: []access.Detail{}, Ended: ended}
	if len(sessions) == 0 {
		return d
	}
	ids := make([]uint16, 0, len(sessions))
	for _, one := range sessions {
		ids = append(ids, one.Session)
	}
	counted, boot := s.counters(ids), clockBegan(time.Now())
	for _, one := range sessions {
		d.Sessions = append(d.Sessions, access.NewDetail(one, counted[one.Session], boot))
	}
	return d
}

// clockBegan is when the datapath's clock was zero.
func clockBegan(now time.Time) time.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return now
	}
	return now.Add(-time.Duration(t.Nano()))
}

func (s *subscribers) TunnelDetails(who string) []access.TunnelDetails {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.TunnelDetails(who)
}

// Sections gives the names of the [access.NAME].
func (s *subscribers) Sections() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []string{}
	for _, one := range s.settings.servers {
		list = append(list, one.Name)
	}
	return list
}

func (s *subscribers) Tunnels() []access.TunnelRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Tunnels()
}

func (s *subscribers) Clients() []access.ClientRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Clients()
}

func (s *subscribers) AccessStats() access.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Stats()
}

// Pools tells how full the sections' pools are, RADIUS how their servers answer.
func (s *subscribers) Pools() []access.PoolRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Pools()
}

func (s *subscribers) RADIUS() []access.RADIUSServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []access.RADIUSServer{}
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
