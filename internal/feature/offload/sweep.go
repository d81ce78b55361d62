package offload

import (
	"context"
	"time"

	"weft/internal/state"
)

// Sweep looks at every flow: connections with packets are kept in connection
// tracking, idle flows go back to the stack, and what is of no use any more is
// removed. now is the clock of Offer.
func (s *Service) Sweep(ctx context.Context, now time.Duration) error {
	generation := s.ways.Generation()
	idle := map[state.FlowTuple]time.Duration{}
	var stray []state.FlowKey
	err := s.tables.Each(func(u state.FlowUse) {
		orig, known := s.owner(u)
		if !known {
			stray = append(stray, u.FlowKey)
			return
		}
		if h := s.hops.list[u.Hop]; u.Generation != generation || u.Closed || h == nil || h.withdrawn || u.Idle >= s.config.IdleTimeout {
			return
		}
		if was, seen := idle[orig]; !seen || u.Idle < was {
			idle[orig] = u.Idle
		}
	})
	if err != nil {
		return err
	}
	if err := s.tables.DeleteFlows(stray); err != nil {
		return err
	}
	var keep []state.KeptConnection
	for orig, c := range s.connections {
		since, used := idle[orig]
		switch {
		case !used:
			// neither direction is offloaded any more
			if err := s.drop(orig, c); err != nil {
				return err
			}
		case now-since > c.kept && now-c.kept >= c.timeout/keepPart:
			left := c.timeout - since
			if left <= 0 {
				continue
			}
			keep = append(keep, state.KeptConnection{Orig: orig, Zone: c.zone, Timeout: left})
			c.kept = now - since
			s.connections[orig] = c
		}
	}
	gone, err := s.kernel.Keep(ctx, keep)
	if err != nil {
		return err
	}
	for _, i := range gone {
		if c, there := s.connections[keep[i].Orig]; there {
			if err := s.drop(keep[i].Orig, c); err != nil {
				return err
			}
		}
	}
	s.reclaim()
	return nil
}

// keepPart is how often in a connection's lifetime connection tracking is told
// that it lives.
const keepPart = 4

// owner gives the connection that a flow is of.
func (s *Service) owner(u state.FlowUse) (state.FlowTuple, bool) {
	if c, there := s.connections[u.Tuple]; there && c.in[0] == u.Interface {
		return u.Tuple, true
	}
	orig := u.Becomes.Back()
	c, there := s.connections[orig]
	return orig, there && c.reply == u.Tuple && c.in[1] == u.Interface
}
