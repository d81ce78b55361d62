// Package schedule decides which packet goes where when several paths lead to
// the same place and several streams wait to be sent. It is pure: no clock, no
// sockets, no allocation per decision. The simulator and the tunnels use the
// same code.
//
// A Scheduler is asked again and again, each time something may be sent. It
// sees a View and answers with one Decision, or that waiting is better. Most
// schedulers are a Pair of two smaller choices: which stream comes next (an
// Order), and which path its packet takes (a Router).
//
// Everything is counted in bytes and in whole nanoseconds, and no floating
// point is used, so that the same View gives the same Decision on any machine.
package schedule

import (
	"math/bits"
	"time"
)

// MaxPaths is the number of paths a View may have at most: as many as a PathSet
// has bits.
const MaxPaths = 64

// Path is what the sender knows of one path.
type Path struct {
	RTT      time.Duration // smoothed round trip (RFC 6298); before the first sample the initial guess
	RTTVar   time.Duration // its mean deviation
	MinRTT   time.Duration // the shortest round trip seen
	Window   int64         // congestion window, bytes
	InFlight int64         // sent and neither acknowledged nor given up, bytes
	Rate     int64         // estimate of what it delivers, bytes a second; 0 = not known yet
	Loss     uint32        // share of packets lost lately, parts per million
	Weight   uint32        // as configured; 0 = not configured
	Down     bool          // must not be used
	Held     bool          // must not be used at this very moment: its pacing, or with View.Ahead its memory, says so
	Queued   int64         // with View.Ahead: memory of what it was handed and has not got acknowledged, bytes
	Pacing   int64         // with View.Ahead: the rate at which it may send at most, bytes a second
}

// Room reports whether the path may take size more bytes now.
func (p *Path) Room(size int64) bool {
	return !p.Down && !p.Held && p.InFlight+size <= p.Window
}

// Stream is a sequence of bytes to be delivered in order. Only streams that have
// something to send are in a View.
type Stream struct {
	ID        uint64        // grows with arrival
	Remaining int64         // bytes to be sent, those to be sent again included
	Sent      int64         // bytes sent so far, repeats not counted
	Deadline  time.Duration // when it should be complete, on the View's clock; 0 = none
	Priority  int32         // smaller goes first
	Weight    uint32        // its part in a fair share; 0 counts as 1
	Note      int64         // belongs to the scheduler; 0 when the stream is new
}

// View is all a scheduler may look at. The sender owns it and keeps it up to
// date; of it a scheduler writes nothing but Stream.Note.
type View struct {
	Now        time.Duration // any origin, never goes back
	MSS        int64         // bytes of a full packet
	Paths      []Path
	Streams    []Stream // sorted by ID
	Changed    uint64   // grows when a stream is added to Streams or removed; 0 = not counted
	Last       uint64   // ID of the stream of the last decision
	Backlog    int64    // bytes to be sent, of all streams together
	Window     int64    // bytes the receiver can hold; 0 = no limit
	WindowLeft int64    // bytes of new data that it can take now
	Ahead      bool     // data is handed to paths before their windows have room, and stays there, as in Linux
	Stalls     uint64   // how often the sender had to stop because WindowLeft was used up
}

// PathSet is a set of indices into View.Paths, bit i standing for path i.
type PathSet uint64

// Only is the set of one path.
func Only(path int) PathSet { return 1 << path }

// Len returns the number of paths in the set.
func (s PathSet) Len() int { return bits.OnesCount64(uint64(s)) }

// First returns the smallest index in a set that is not empty.
func (s PathSet) First() int { return bits.TrailingZeros64(uint64(s)) }

// Decision is to send one packet, or one burst.
type Decision struct {
	Stream int     // index into View.Streams
	Paths  PathSet // a copy on each; never empty, each has room for View.MSS unless View.Ahead
	Skip   int64   // leave out so many bytes of what the stream would send next; they follow later
	Burst  int64   // with View.Ahead: hand over so many bytes at once; 0 = a packet
}

// Scheduler takes decisions. Next says false when nothing should be sent before
// something changes. The sender carries out every decision that it is given.
// A Scheduler may remember things, and belongs to one sender.
type Scheduler interface {
	Next(v *View) (Decision, bool)
}

// Order chooses the stream that is served next, an index into v.Streams, which
// is not empty. Served tells it that so many bytes of a stream now are.
type Order interface {
	Stream(v *View) int
	Served(s *Stream, bytes int64)
}

// Router chooses the path, or the paths, for the next packet of a stream.
// Its Decision has no Stream. It says false to wait.
type Router interface {
	Path(v *View, s *Stream) (Decision, bool)
}

// Repeater is a Scheduler that may want each path to carry everything: where
// Repeats says true, the sender gives a path with room first what was sent on
// other paths, was not acknowledged, and was not on this one.
type Repeater interface {
	Repeats() bool
}

// Pair is a Scheduler made of an Order and a Router.
type Pair struct {
	Order  Order
	Router Router
}

// Next implements Scheduler.
func (p Pair) Next(v *View) (Decision, bool) {
	if len(v.Streams) == 0 {
		return Decision{}, false
	}
	i := 0
	if len(v.Streams) > 1 {
		i = p.Order.Stream(v)
	}
	s := &v.Streams[i]
	d, ok := p.Router.Path(v, s)
	if ok {
		d.Stream = i
		p.Order.Served(s, min(v.MSS, s.Remaining))
	}
	return d, ok
}

// Repeats implements Repeater.
func (p Pair) Repeats() bool {
	_, ok := p.Router.(Redundant)
	return ok
}

// mulDiv returns a*b/c without overflow in between, and the largest number where
// the result itself does not fit. None may be negative; c must not be 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}
