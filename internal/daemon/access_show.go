package daemon

import (
	"weft/internal/api"
	"weft/internal/feature/access"
)

// Subscribers, Tunnels, Clients and AccessStats are what the API shows.
func (s *subscribers) Subscribers() []api.Subscriber {
	s.mu.Lock()
	rows := s.engine.Subscribers()
	s.mu.Unlock()
	list := make([]api.Subscriber, 0, len(rows))
	if len(rows) == 0 {
		return list
	}
	counted := s.counters(nil)
	for _, r := range rows {
		list = append(list, api.NewSubscriber(r, counted[r.Session]))
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
