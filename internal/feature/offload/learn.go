package offload

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"weft/internal/state"
)

// candidate is a flow on its way to be offloaded.
type candidate struct {
	passed  state.PassedFlow
	c       state.Connection
	back    bool // it is the reply direction
	arrives state.FlowTuple
	way     state.FlowPath
	marked  state.FlowPath // the same, of packets that have the connection's mark
}

// Offer takes flows whose packets have passed the stack, and offloads those that can
// be. now is a monotonic clock.
func (s *Service) Offer(ctx context.Context, passed []state.PassedFlow, now time.Duration) error {
	s.now = now
	generation := s.ways.Generation()
	var list []candidate
	for _, p := range passed {
		c := candidate{passed: p}
		if why := s.refuse(p, generation); why != "" {
			s.left(c, why)
			continue
		}
		list = append(list, c)
	}
	list, err := s.connect(ctx, list)
	if err != nil {
		return err
	}
	if list, err = s.route(ctx, list); err != nil {
		return err
	}
	return s.put(ctx, list, now)
}

func (s *Service) refuse(p state.PassedFlow, generation uint32) Why {
	switch {
	case p.Generation != generation:
		return WhyStale
	case !s.config.Takes(p.Tuple.Protocol):
		return WhyProtocol
	}
	return s.policy.refuses(p.Tuple)
}

// connect finds the connections of candidates, and leaves out those that are
// not ready.
func (s *Service) connect(ctx context.Context, list []candidate) ([]candidate, error) {
	tuples := make([]state.FlowTuple, len(list))
	for i, c := range list {
		tuples[i] = c.passed.Tuple.Back() // what the answer to it will be, is in tracking
	}
	found := make([]state.Connection, len(list))
	several := make([]bool, len(list))
	for _, zone := range append([]uint16{0}, s.policy.Zones...) {
		in, err := s.kernel.Connections(ctx, tuples, zone)
		if err != nil {
			return nil, err
		}
		for i, c := range in {
			if c.Status&state.ConnectionConfirmed != 0 {
				several[i] = several[i] || found[i].Status != 0
				found[i] = c
			}
		}
	}
	kept := list[:0]
	for i, c := range list {
		why := s.ready(found[i], several[i])
		if why == WhyUntracked {
			why = s.policy.untracked(tuples[i])
		}
		if found[i].Status != 0 {
			c.c = found[i]
			c.back = c.c.Orig == tuples[i]
			c.arrives = c.c.Orig
			if c.back {
				c.arrives = c.c.Reply
			}
		}
		if why == "" {
			why = s.collides(c)
		}
		if why != "" {
			s.left(c, why)
			continue
		}
		kept = append(kept, c)
	}
	return kept, nil
}

func (s *Service) ready(c state.Connection, several bool) Why {
	assured := c.Status&state.ConnectionAssured != 0
	switch {
	case c.Status&state.ConnectionConfirmed == 0:
		return WhyUntracked
	case several:
		return WhyZones
	case s.old[c.ID]:
		return WhyOld
	case c.Special != "":
		return Why(c.Special)
	case c.Orig.Protocol == state.ProtocolTCP && c.TCP > state.TCPEstablished && c.TCP <= state.TCPClosed:
		return WhyEnding
	case c.Status&state.ConnectionDying != 0, c.Status&state.ConnectionSeenReply == 0:
		return WhyYoung
	case c.Orig.Protocol == state.ProtocolTCP && (c.TCP != state.TCPEstablished || !assured):
		return WhyYoung
	}
	return ""
}

// collides reports whether the place is taken by a connection of another zone.
func (s *Service) collides(c candidate) Why {
	if old := s.connections.get(c.c.Orig); old != nil && (old.zone != c.c.Zone || old.reply != c.c.Reply) {
		return WhyCollision
	}
	return ""
}

// route finds where the kernel sends the packets, which must be where they
// were seen to go.
func (s *Service) route(ctx context.Context, list []candidate) ([]candidate, error) {
	s.routes.room(len(list))
	var keys, ask []state.FlowAsk
	asked := map[state.FlowAsk]bool{}
	want := func(k, a state.FlowAsk) {
		if _, known := s.routes.get(k); !known && !asked[k] {
			asked[k] = true
			keys, ask = append(keys, k), append(ask, a)
		}
	}
	for _, c := range list {
		want(s.askOf(c, 0))
		if mark := s.markOf(c); mark != 0 {
			want(s.askOf(c, mark))
		}
	}
	ways, err := s.kernel.Paths(ctx, ask)
	if err != nil {
		return nil, err
	}
	kept := list[:0]
	for i, k := range keys {
		s.routes.put(k, ways[i])
	}
	for _, c := range list {
		k, _ := s.askOf(c, 0)
		c.way, _ = s.routes.get(k)
		if mark := s.markOf(c); mark != 0 {
			k, _ = s.askOf(c, mark)
			c.marked, _ = s.routes.get(k)
		}
		if !c.way.Unicast && !c.marked.Unicast {
			s.left(c, WhyRoute)
			continue
		}
		kept = append(kept, c)
	}
	return kept, nil
}

// askOf returns what the stack routed by: NAT had given the packet its new
// destination, and not yet its new source. key is what other packets share.
func (s *Service) askOf(c candidate, mark uint32) (key, ask state.FlowAsk) {
	ask = state.FlowAsk{Interface: int(c.passed.Interface), To: c.passed.Tuple.To(), From: c.arrives.From(), Mark: mark}
	key = ask
	if s.plainRules {
		key.From = netip.Addr{}
	}
	return key, ask
}

// markOf returns the mark that the ruleset may have given the packets, so that rules
// send them elsewhere: who marks packets keeps the mark with the connection.
func (s *Service) markOf(c candidate) uint32 {
	if s.plainRules {
		return 0
	}
	return c.c.Mark
}

// wayOut returns the number of the way out by which a candidate's frames were seen to
// leave: that of its packets with the connection's mark, or without.
func (s *Service) wayOut(c candidate) (uint32, Why, error) {
	if c.marked.Unicast {
		plain := c.way
		c.way = c.marked
		if n, why, err := s.hop(c); why == "" || !plain.Unicast {
			return n, why, err
		}
		c.way = plain
	}
	return s.hop(c)
}

// put writes the flows of candidates.
func (s *Service) put(ctx context.Context, list []candidate, now time.Duration) error {
	var flows []state.Flow
	var of []candidate
	for _, c := range list {
		hop, why, err := s.wayOut(c)
		if err != nil {
			return err
		}
		if why != "" {
			s.left(c, why)
			continue
		}
		flows = append(flows, state.Flow{
			FlowKey: state.FlowKey{Interface: c.passed.Interface, Tuple: c.arrives},
			Becomes: c.passed.Tuple, Hop: hop, Generation: c.passed.Generation,
		})
		of = append(of, c)
	}
	if _, err := s.unbind(ctx, of, func(c candidate) bool { return !c.c.Liberal }); err != nil {
		return err
	}
	done, err := s.tables.PutFlows(flows)
	var strays []state.FlowKey
	for i, f := range flows[:done] {
		if old := s.note(of[i], f, now); old != f.Interface && old != 0 {
			strays = append(strays, state.FlowKey{Interface: old, Tuple: f.Tuple})
		}
	}
	s.taken += uint64(done)
	if len(strays) > 0 {
		// no connection refers to the old flow, so nothing else would delete it
		if err := s.tables.DeleteFlows(strays); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, of[:done]); err != nil {
		return err
	}
	keys := make([]state.FlowKey, done)
	for i, f := range flows[:done] {
		keys[i] = f.FlowKey
	}
	s.tables.OpenFlows(keys)
	if err != nil && errors.Is(err, s.full) {
		for _, c := range of[done:] {
			s.left(c, WhyFull)
		}
		return nil
	}
	return err
}

// unbind has connection tracking accept TCP segments out of window for some connections
// (liberal), because it will not see all their packets. It gives the connections that
// connection tracking no longer has. It does not remember for which connections this
// was done: a port that is used again makes another connection with the same addresses
// and ports, perhaps before the end of the first one is reported here.
func (s *Service) unbind(ctx context.Context, list []candidate, which func(candidate) bool) (gone []state.FlowTuple, err error) {
	var keep []state.KeptConnection
	notified := map[state.FlowTuple]bool{}
	for _, c := range list {
		if c.c.Orig.Protocol == state.ProtocolTCP && which(c) && !notified[c.c.Orig] {
			notified[c.c.Orig] = true
			keep = append(keep, state.KeptConnection{Orig: c.c.Orig, Zone: c.c.Zone, Liberal: true})
		}
	}
	if len(keep) == 0 {
		return nil, nil
	}
	places, err := s.kernel.Keep(ctx, keep)
	for _, i := range places {
		gone = append(gone, keep[i].Orig)
	}
	return gone, err
}

// settle looks after flows that have just been written, and are pending. Between the
// answer about a connection and its flow another one may have begun in its place,
// whose beginning the flow has not seen. From here on it sees that, and is not opened.
func (s *Service) settle(ctx context.Context, list []candidate) error {
	gone, err := s.unbind(ctx, list, func(candidate) bool { return true })
	var b back
	for _, orig := range gone {
		if c := s.connections.get(orig); c != nil {
			s.remove(*c, &b)
		}
	}
	return errors.Join(err, s.give(b))
}

// note remembers a flow, and gives the interface that packets of that direction
// came by until now; 0: none.
func (s *Service) note(c candidate, f state.Flow, now time.Duration) (was uint32) {
	delete(s.recent.at, c.passed.Tuple)
	known := s.connections.get(c.c.Orig)
	if known == nil {
		known = s.connections.add(connection{orig: c.c.Orig, reply: c.c.Reply, zone: c.c.Zone, kept: now, looked: now, since: seconds(now)})
	}
	known.timeout = max(known.timeout, c.c.Timeout)
	known.young = c.c.Orig.Protocol == state.ProtocolUDP && c.c.Status&state.ConnectionAssured == 0
	d := 0
	if c.back {
		d = 1
	}
	if was = known.in[d]; was != 0 {
		s.letGo(*known, d)
	}
	known.in[d], known.hop[d] = f.Interface, f.Hop
	known.useless[d] = 0 // whether the sweep has passed its place or not
	s.hops.hold(f.Hop)
	s.arrivals[f.Interface]++
	return was
}
