package offload

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weft/internal/state"
)

// RefusalTables are the tables of refused flows.
type RefusalTables interface {
	// PutRefusals writes flows that are not dropped yet.
	PutRefusals([]state.FlowKey) error
	// HoldRefusals has them be dropped, but for those that a packet the other way
	// has taken back since.
	HoldRefusals(list []state.FlowKey, generation, epoch uint32, d time.Duration) error
	DeleteRefusals([]state.FlowKey) error
	// Refuse says which hold, those of that epoch; 0: none do.
	Refuse(epoch uint32)
}

const (
	// refuseFor is how long a flow is dropped before the ruleset sees a packet of
	// it again.
	refuseFor = 10 * time.Second
	// refuseAfter is how long a refusal waits before it is believed: news of what
	// has changed since come within that.
	refuseAfter = 50 * time.Millisecond
	// refusedMax bounds the flows that wait, and those that are held.
	refusedMax = 8192
	// waitingMax bounds those that wait: 60 ms of what the kernel samples, and more.
	waitingMax = 256
)

// refused is what is known of refused flows.
type refused struct {
	tables  RefusalTables // nil: nothing is dropped early
	policy  Refusable
	known   bool // policy is that of the ruleset in force
	epoch   uint32
	waiting []waitingRefusal
	held    map[state.FlowKey]heldRefusal
	taken   uint64
	counts  map[Why]uint64
}

type waitingRefusal struct {
	state.RefusedPacket
	since time.Duration
}

type heldRefusal struct {
	to    netip.Addr // after NAT
	rule  string
	until time.Duration
}

// Refuse starts early drop of refused flows, with those tables.
func (s *Service) Refuse(t RefusalTables) {
	s.refused = refused{tables: t, epoch: 1, held: map[state.FlowKey]heldRefusal{}, counts: map[Why]uint64{}}
	t.Refuse(1)
}

// void forgets all of them: what they depend on may have changed. The
// generation, or the next epoch, has made them void for the programs.
func (r *refused) void() {
	r.waiting = nil
	clear(r.held)
}

// linksChanged makes all of them void.
func (r *refused) linksChanged() {
	if r.tables == nil {
		return
	}
	r.void()
	if r.epoch++; r.epoch == 0 {
		r.epoch = 1
	}
	r.tables.Refuse(r.epoch)
}

// routeChanged takes back those that a route is of.
func (r *refused) routeChanged(p netip.Prefix) error {
	if r.tables == nil {
		return nil
	}
	concerns := func(k state.FlowKey, to netip.Addr) bool {
		return p.Contains(k.Tuple.From()) || p.Contains(k.Tuple.To()) || p.Contains(to)
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(w waitingRefusal) bool { return concerns(w.FlowKey, w.To) })
	var gone []state.FlowKey
	for k, h := range r.held {
		if concerns(k, h.to) {
			gone = append(gone, k)
			delete(r.held, k)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return r.tables.DeleteRefusals(gone)
}

// SetRefusable sets what the ruleset's refusals mean for flows. Earlier refusals belong
// to another ruleset and are discarded.
func (s *Service) SetRefusable(p Refusable) {
	s.refused.policy, s.refused.known, s.refused.waiting = p, true, nil
}

// Refused takes packets that the ruleset has dropped.
func (s *Service) Refused(list []state.RefusedPacket, now time.Duration) {
	r := &s.refused
	if r.tables == nil || !r.known {
		return
	}
	r.forget(now) // or one whose time is over would stand in its own way
	for _, p := range list {
		why := r.policy.refuses(p)
		_, held := r.held[p.FlowKey]
		waits := slices.ContainsFunc(r.waiting, func(w waitingRefusal) bool { return w.FlowKey == p.FlowKey })
		switch {
		case held || waits:
		case why != "":
			r.counts[why]++
		case len(r.waiting) < waitingMax && len(r.held) < refusedMax:
			r.waiting = append(r.waiting, waitingRefusal{p, now})
		}
	}
}

// forget takes out those whose time is over: the ruleset sees their packets again.
func (r *refused) forget(now time.Duration) {
	for k, h := range r.held {
		if now >= h.until {
			delete(r.held, k)
		}
	}
}

// Waiting reports whether RefuseDue has work, now or soon.
func (s *Service) Waiting() bool { return len(s.refused.waiting) > 0 }

// RefuseDue has flows dropped whose refusal has waited long enough. It writes them first,
// then asks connection tracking, then makes them valid: a connection that begins
// meanwhile is found by connection tracking, or by the program that sees its packets leave.
func (s *Service) RefuseDue(ctx context.Context, now time.Duration) error {
	r := &s.refused
	r.forget(now)
	n := 0
	for n < len(r.waiting) && now-r.waiting[n].since >= refuseAfter {
		n++
	}
	due := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	if n == 0 {
		return nil
	}
	keys, tuples := make([]state.FlowKey, n), make([]state.FlowTuple, n)
	for i, w := range due {
		keys[i], tuples[i] = w.FlowKey, w.Tuple
	}
	if err := r.tables.PutRefusals(keys); err != nil {
		return err
	}
	begun := make([]bool, n)
	for _, zone := range append([]uint16{0}, s.policy.Zones...) {
		found, err := s.kernel.Connections(ctx, tuples, zone)
		if err != nil {
			return err
		}
		for i, c := range found {
			begun[i] = begun[i] || c.Status&state.ConnectionConfirmed != 0
		}
	}
	var hold, drop []state.FlowKey
	for i, w := range due {
		if begun[i] {
			r.counts[WhyGone]++
			drop = append(drop, w.FlowKey)
			continue
		}
		hold = append(hold, w.FlowKey)
		r.held[w.FlowKey] = heldRefusal{to: w.To, rule: ruleName(w.RefusedPacket), until: now + refuseFor}
		r.taken++
	}
	if err := r.tables.DeleteRefusals(drop); err != nil {
		return err
	}
	return r.tables.HoldRefusals(hold, s.ways.Generation(), r.epoch, refuseFor)
}

// ruleName returns which rule, or which chain's policy, refused a packet.
func ruleName(p state.RefusedPacket) string {
	family := map[uint8]string{1: "inet", 2: "ip", 10: "ip6"}[p.Family]
	if p.Rule == 0 {
		return fmt.Sprintf("policy of chain %s %s %s", family, p.Table, p.Chain)
	}
	return fmt.Sprintf("rule %d of chain %s %s %s", p.Rule, family, p.Table, p.Chain)
}
