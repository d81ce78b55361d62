package offload

import (
	"time"

	"weft/internal/state"
)

// connection is one that has flows.
type connection struct {
	orig    state.FlowTuple
	reply   state.FlowTuple
	in      [2]uint32 // interface that packets of each direction come by; 0: not offloaded
	hop     [2]uint32
	timeout time.Duration
	kept    time.Duration // when connection tracking was last told of it
	used    time.Duration // when a packet was last seen to have gone past the stack
	round   uint32        // of the sweep that last saw that it is of use
	zone    uint16
}

// connections has them by their original direction, and in a list, so that
// they can be looked through some at a time.
type connections struct {
	at   map[state.FlowTuple]int
	list []connection
}

// get gives a connection until the next change of the list; nil if there is none.
func (l *connections) get(orig state.FlowTuple) *connection {
	if i, there := l.at[orig]; there {
		return &l.list[i]
	}
	return nil
}

func (l *connections) add(c connection) *connection {
	l.at[c.orig] = len(l.list)
	l.list = append(l.list, c)
	return &l.list[len(l.list)-1]
}

// remove puts the last of the list in its place: who goes through the list
// from its end misses none.
func (l *connections) remove(orig state.FlowTuple) {
	i, last := l.at[orig], len(l.list)-1
	if i != last {
		l.list[i] = l.list[last]
		l.at[l.list[i].orig] = i
	}
	l.list = l.list[:last]
	delete(l.at, orig)
}
