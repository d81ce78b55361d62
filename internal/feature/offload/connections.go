package offload

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"weft/internal/state"
)

// connection is one that has flows.
type connection struct {
	orig    state.FlowTuple
	reply   state.FlowTuple
	in      [2]uint32 // interface that packets of each direction come by; 0: not offloaded
	hop     [2]uint32
	since   uint32 // seconds by the clock: when it was first offloaded
	timeout time.Duration
	kept    time.Duration // time of the packet for which the entry was last refreshed
	looked  time.Duration // when it was last asked whether there was a later one
	useless [2]uint32     // by direction: the sweep that found its flow to be of no use
	zone    uint16
	young   bool      // UDP that has its first, short time in connection tracking
	ends    [2]beside // of each end's list
}

// end is one of the two ends of a connection in the list: its place and which,
// the one that began it or the other.
type end int32

const noEnd end = -1

// beside is where an end stands in the list of those with its address.
type beside struct{ before, behind end }

// address gives where packets to an end are routed: NAT is undone before.
func (c *connection) address(which end) netip.Prefix {
	a := c.orig.From()
	if which == 1 {
		a = c.reply.From()
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// useful reports whether a direction of it is, after that sweep looked at all flows.
func (c *connection) useful(round uint32) bool {
	for d, in := range c.in {
		if in != 0 && c.useless[d] != round {
			return true
		}
	}
	return false
}

// flows returns the keys of its flows.
func (c *connection) flows(list []state.FlowKey) []state.FlowKey {
	for d, arrives := range [2]state.FlowTuple{c.orig, c.reply} {
		if c.in[d] != 0 {
			list = append(list, state.FlowKey{Interface: c.in[d], Tuple: arrives})
		}
	}
	return list
}

// connections has them by their original direction; in a list, so that they
// can be looked through some at a time; and by the addresses of their ends, so
// that a route's news finds those that it is of.
type connections struct {
	at    map[state.FlowTuple]int
	list  []connection
	first bart.Table[end] // of those with an address
}

// get returns a connection until the next change of the list; nil if there is none.
func (l *connections) get(orig state.FlowTuple) *connection {
	if i, there := l.at[orig]; there {
		return &l.list[i]
	}
	return nil
}

func (l *connections) add(c connection) *connection {
	i := len(l.list)
	l.at[c.orig] = i
	l.list = append(l.list, c)
	l.tie(i)
	return &l.list[i]
}

// remove puts the last of the list in its place: who goes through the list
// from its end misses none.
func (l *connections) remove(orig state.FlowTuple) {
	i, last := l.at[orig], len(l.list)-1
	l.untie(i)
	if i != last {
		l.untie(last)
		l.list[i] = l.list[last]
		l.at[l.list[i].orig] = i
		l.tie(i)
	}
	l.list = l.list[:last]
	delete(l.at, orig)
}

func (l *connections) beside(e end) *beside { return &l.list[e>>1].ends[e&1] }

// tie puts both ends of a connection first in the lists of their addresses.
func (l *connections) tie(i int) {
	for which := range end(2) {
		e, address := end(i)<<1|which, l.list[i].address(which)
		behind, some := l.first.Get(address)
		if !some {
			behind = noEnd
		} else {
			l.beside(behind).before = e
		}
		*l.beside(e) = beside{noEnd, behind}
		l.first.Insert(address, e)
	}
}

func (l *connections) untie(i int) {
	for which := range end(2) {
		b := *l.beside(end(i)<<1 | which)
		switch {
		case b.before != noEnd:
			l.beside(b.before).behind = b.behind
		case b.behind != noEnd:
			l.first.Insert(l.list[i].address(which), b.behind)
		default:
			l.first.Delete(l.list[i].address(which))
		}
		if b.behind != noEnd {
			l.beside(b.behind).before = b.before
		}
	}
}

// within returns the connections with an end in a prefix, or the first so many
// of them and that there are more.
func (l *connections) within(p netip.Prefix, most int) (list []state.FlowTuple, more bool) {
	for _, e := range l.first.Subnets(p) {
		for ; e != noEnd; e = l.beside(e).behind {
			if len(list) == most {
				return list, true
			}
			list = append(list, l.list[e>>1].orig)
		}
	}
	return list, false
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// FlowPair identifies a flow: its addresses and ports as packets arrive and as they leave.
type FlowPair struct{ Arrives, Becomes state.FlowTuple }

// Ages returns the time since the connections of flows were first offloaded, in seconds;
// -1 for flows that are not offloaded. now is the clock of Offer.
func (s *Service) Ages(flows []FlowPair, now time.Duration) []int {
	ages := make([]int, len(flows))
	for i, f := range flows {
		c := s.connections.get(f.Arrives)
		if c == nil {
			if c = s.connections.get(f.Becomes.Back()); c != nil && c.reply != f.Arrives {
				c = nil
			}
		}
		ages[i] = -1
		if c != nil {
			ages[i] = int(seconds(now) - c.since)
		}
	}
	return ages
}
