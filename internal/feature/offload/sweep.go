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
	sweepFlows            // flows tell which directions are of no use
	sweepJudged           // connections are kept, or given back
)

// sweepAtOnce bounds the connections that one call of Sweep judges.
const sweepAtOnce = 4096

// keepPart is the number of refreshes of an entry in connection tracking within its
// timeout.
const keepPart = 4

// Sweep visits every flow, some thousand per call, so that events and requests wait no
// longer than one call. It refreshes the connections with packets in connection
// tracking, returns idle flows to the stack, and removes flows of no further use. now is
// the clock of Offer. more is false at the end of a round; the next call begins another.
//
// It must be cheap with a million connections that are all in use: it reads each flow in
// place, looks up the connection only of flows of no use, and reads the time of the last
// packet only when a connection is due.
func (s *Service) Sweep(ctx context.Context, now time.Duration) (more bool, err error) {
	switch s.sweep.part {
	case sweepNone:
		s.sweep.round++
		s.sweep.part = sweepFlows
		fallthrough
	case sweepFlows:
		more, err = s.lookAtFlows()
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

// useful gives who tells whether a flow is of use now.
func (s *Service) useful() func(state.FlowState) bool {
	generation := s.ways.Generation()
	var number uint32 // most flows leave by the same few
	var way *hop
	return func(f state.FlowState) bool {
		if way == nil || f.Hop != number {
			number, way = f.Hop, s.hops.list[f.Hop]
		}
		return f.Generation == generation && !f.Closed && way != nil && !way.withdrawn && f.Idle < s.config.IdleTimeout
	}
}

// lookAtFlows notes which directions some of the flows show to be of no use.
func (s *Service) lookAtFlows() (more bool, err error) {
	var stray []state.FlowKey
	more, err = s.tables.Some(s.useful(), func(u state.FlowUse) {
		if c, d := s.owner(u); c != nil {
			c.useless[d] = s.sweep.round
		} else {
			stray = append(stray, u.FlowKey)
		}
	})
	if err != nil {
		return more, err
	}
	return more, s.tables.DeleteFlows(stray)
}

// judge goes through some of the connections, from the end of the list.
func (s *Service) judge(ctx context.Context, now time.Duration) error {
	var b back
	var due []state.FlowTuple
	s.sweep.next = min(s.sweep.next, len(s.connections.list))
	for n := 0; n < sweepAtOnce && s.sweep.next > 0; n++ {
		s.sweep.next--
		c := &s.connections.list[s.sweep.next]
		switch {
		case !c.useful(s.sweep.round):
			s.remove(*c, &b) // neither direction is offloaded any more
		case now-c.looked >= c.timeout/keepPart:
			due = append(due, c.orig)
		}
	}
	return errors.Join(s.keep(ctx, due, now, &b), s.give(b))
}

// keep tells connection tracking of those of some connections that live. Those
// that are in no table, here or there, are given back.
func (s *Service) keep(ctx context.Context, due []state.FlowTuple, now time.Duration, b *back) error {
	var keys []state.FlowKey
	var of []int // by keys: of due
	for i, orig := range due {
		keys = s.connections.get(orig).flows(keys)
		for len(of) < len(keys) {
			of = append(of, i)
		}
	}
	there, used := make([]bool, len(due)), make([]time.Duration, len(due))
	useful := s.useful()
	err := s.tables.Look(keys, func(i int, f state.FlowState) {
		there[of[i]] = true
		if useful(f) {
			used[of[i]] = max(used[of[i]], now-f.Idle)
		}
	})
	if err != nil {
		return err
	}
	var list []state.KeptConnection
	for i, orig := range due {
		c := s.connections.get(orig)
		c.looked = now
		assured := s.isStream(c, used[i])
		if assured {
			c.young, c.timeout = false, max(c.timeout, s.udpStream)
		}
		left := c.timeout - (now - used[i])
		switch {
		case !there[i]:
			s.remove(*c, b)
		case used[i] > c.kept && left > 0:
			list = append(list, state.KeptConnection{Orig: orig, Zone: c.zone, Timeout: left, Assured: assured})
			c.kept = used[i]
		}
	}
	gone, err := s.kernel.Keep(ctx, list)
	for _, i := range gone {
		if c := s.connections.get(list[i].Orig); c != nil {
			s.remove(*c, b)
		}
	}
	return err
}

// streamAfter is how long after its answer UDP must go on for connection tracking
// to give it the time of a stream, and to keep it when its table is full.
const streamAfter = 2 * time.Second

// isStream reports whether connection tracking would have made a stream of it by now,
// had it seen the packets. Times that the ruleset gives are not known.
func (s *Service) isStream(c *connection, used time.Duration) bool {
	return c.young && s.udpStream > 0 && !s.policy.Timeouts && used >= time.Duration(c.since)*time.Second+streamAfter
}

// owner returns the connection that a flow is of, and which direction; nil: none.
func (s *Service) owner(u state.FlowUse) (*connection, int) {
	if c := s.connections.get(u.Tuple); c != nil && c.in[0] == u.Interface {
		return c, 0
	}
	if c := s.connections.get(u.Becomes.Back()); c != nil && c.reply == u.Tuple && c.in[1] == u.Interface {
		return c, 1
	}
	return nil, 0
}
