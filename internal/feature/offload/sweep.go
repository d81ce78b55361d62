package offload

import (
	"context"
	"errors"
	"time"

	"weft/internal/state"
)

// sweep is how far a look at all flows has come.
type sweep struct {
	round uint32
	part  sweepPart
	next  int // connections before it in the list are yet to be judged
}

type sweepPart int

const (
	sweepNone   sweepPart = iota
	sweepFlows            // flows tell which connections are of use
	sweepJudged           // connections are kept, or given back
)

// sweepAtOnce bounds the connections that one call of Sweep judges.
const sweepAtOnce = 4096

// keepPart is how often in a connection's lifetime connection tracking is told
// that it lives.
const keepPart = 4

// Sweep looks at every flow, some thousands at a call, so that news and
// questions wait for no more than that: connections with packets are kept in
// connection tracking, idle flows go back to the stack, and what is of no use
// any more is removed. now is the clock of Offer. more is false at the end of
// a round; the next call begins another.
func (s *Service) Sweep(ctx context.Context, now time.Duration) (more bool, err error) {
	switch s.sweep.part {
	case sweepNone:
		s.sweep.round++
		s.sweep.part = sweepFlows
		fallthrough
	case sweepFlows:
		more, err = s.lookAtFlows(now)
		if !more {
			// what is learnt from here on comes behind them
			s.sweep.part, s.sweep.next = sweepJudged, len(s.connections.list)
		}
		return true, err
	}
	if err := s.judge(ctx, now); err != nil {
		return false, err
	}
	if s.sweep.next > 0 {
		return true, nil
	}
	s.reclaim()
	s.sweep.part = sweepNone
	return false, nil
}

// lookAtFlows notes which connections some of the flows show to be of use.
func (s *Service) lookAtFlows(now time.Duration) (more bool, err error) {
	generation := s.ways.Generation()
	var stray []state.FlowKey
	more, err = s.tables.Some(func(u state.FlowUse) {
		c := s.owner(u)
		if c == nil {
			stray = append(stray, u.FlowKey)
			return
		}
		if h := s.hops.list[u.Hop]; u.Generation != generation || u.Closed || h == nil || h.withdrawn || u.Idle >= s.config.IdleTimeout {
			return
		}
		c.round = s.sweep.round
		c.used = max(c.used, now-u.Idle)
	})
	if err != nil {
		return more, err
	}
	return more, s.tables.DeleteFlows(stray)
}

// judge goes through some of the connections, from the end of the list.
func (s *Service) judge(ctx context.Context, now time.Duration) error {
	var b back
	var keep []state.KeptConnection
	s.sweep.next = min(s.sweep.next, len(s.connections.list))
	for n := 0; n < sweepAtOnce && s.sweep.next > 0; n++ {
		s.sweep.next--
		c := &s.connections.list[s.sweep.next]
		switch {
		case c.round != s.sweep.round:
			s.remove(*c, &b) // neither direction is offloaded any more
		case c.used > c.kept && now-c.kept >= c.timeout/keepPart:
			left := c.timeout - (now - c.used)
			if left <= 0 {
				continue
			}
			keep = append(keep, state.KeptConnection{Orig: c.orig, Zone: c.zone, Timeout: left})
			c.kept = c.used
		}
	}
	gone, err := s.kernel.Keep(ctx, keep)
	for _, i := range gone {
		if c := s.connections.get(keep[i].Orig); c != nil {
			s.remove(*c, &b)
		}
	}
	return errors.Join(err, s.give(b))
}

// owner gives the connection that a flow is of; nil: none.
func (s *Service) owner(u state.FlowUse) *connection {
	if c := s.connections.get(u.Tuple); c != nil && c.in[0] == u.Interface {
		return c
	}
	if c := s.connections.get(u.Becomes.Back()); c != nil && c.reply == u.Tuple && c.in[1] == u.Interface {
		return c
	}
	return nil
}
