// Package simulate tries out multipath schedulers on simulated networks: a
// sender and a receiver, several paths with queues between them, and streams
// that arrive to be sent. The schedulers are those of package schedule, the very
// code that sends real packets.
//
// # The model
//
// One connection carries all streams, as in multipath QUIC (or, with one stream,
// as in MPTCP, RFC 8684). A path has a bottleneck, which serves a queue, and
// behind it a constant delay with jitter and losses; acknowledgements come back
// on the same path without queueing. Each path has its own packet numbers and
// loss recovery (RFC 9002) and its own or coupled congestion control. The
// receiver holds what arrives out of order within a stream, at most so much for
// the whole connection, and reads what is in order at once.
//
// # One seed, one result
//
// Time is whole nanoseconds. Simultaneous events happen in the order of their
// slots (see engine.go). All chance comes from PCG generators (math/rand/v2),
// one for each path and each source of streams, so that schedulers under
// comparison meet the same arrivals. Logarithms and roots are computed with
// integers. What is left of floating point, the coupled congestion controls,
// uses + - * / only, which IEEE 754 defines to the bit, with each product made
// an explicit conversion: that forbids the compiler to fuse it with a sum (Go
// specification, "Floating-point operators"), as it does on some machines.
package simulate

import "time"

// Time is counted from the beginning of a run.
type Time = time.Duration

const never Time = 1<<63 - 1

// Unlimited is the size of a stream that does not end.
const Unlimited = int64(1) << 50

// Setup is everything that a run depends on.
type Setup struct {
	Seed          uint64
	End           Time          // the run ends here, 0 = when all streams are complete
	Scheduler     string        // as schedule.New takes it
	Congestion    string        // one of Controls()
	MSS           int64         // bytes of data in a full packet
	Overhead      int64         // bytes of headers a packet, on the path only
	InitialWindow int64         // packets (RFC 6928)
	ReceiveBuffer int64         // bytes; 0 = no limit
	AckEvery      int           // packets of a path an acknowledgement waits for, 1 or more
	AckDelay      time.Duration // how long at most
	Linux         bool          // the sender is Linux's MPTCP (linux.go): one connection, to which streams are written one after another
	SamePath      bool          // lost data goes again on the path that lost it, as in Linux MPTCP, not where the scheduler says
	Keep          int           // so many streams are reported one by one
	Paths         []PathSetup
	Sources       []Source
}

// PathSetup is one path from sender to receiver.
type PathSetup struct {
	Name      string
	Rate      int64  // bits a second
	Trace     []Time // instead of Rate: when one packet of TracePacket bytes can leave; repeated, the last entry is the period
	Delay     Time   // one way, behind the queue
	Back      Time   // one way of acknowledgements
	Jitter    Time   // up to so much longer, at random; packets stay in order
	Queue     int64  // bytes, the packet being served not counted
	CoDel     bool   // the queue is managed by CoDel (RFC 8289)
	Target    Time   // CoDel's target
	Interval  Time   // CoDel's interval
	Loss      Loss
	AckLoss   uint32   // acknowledgements lost, parts per million
	Weight    uint32   // for weighted round robin
	Changes   []Change // failures and returns, in order of time
	StartDown bool
}

// TracePacket is what leaves at each entry of a trace, in bytes (mahimahi).
const TracePacket = 1504

// Loss is chance at the end of the bottleneck: Gilbert's and Elliott's two
// states (E. O. Elliott, "Estimates of Error Rates for Codes on Burst-Noise
// Channels", 1963). All in parts per million a packet.
type Loss struct {
	Good  uint32 // lost in the good state; alone it is plain random loss
	Bad   uint32 // lost in the bad state
	Enter uint32 // from good to bad
	Leave uint32 // from bad to good
}

// Change is a path going down, losing all that is on it, or coming back.
type Change struct {
	At Time
	Up bool
}

// Source makes streams.
type Source struct {
	Name     string
	First    Time  // of the first stream
	Every    Time  // between streams: exactly, or on average if Poisson; 0 = all at once
	Count    int   // streams; 0 = until Last
	Last     Time  // no stream arrives later; 0 = no limit
	Poisson  bool  // exponential times between arrivals
	Size     int64 // bytes, or the mean
	Spread   Spread
	Priority int32
	Weight   uint32
	Deadline Time   // after arrival; 0 = none
	Page     []Item // instead of Size: each arrival is a page of these
}

// Spread is how the sizes of streams are distributed about their mean.
type Spread string

const (
	Fixed       Spread = "fixed"
	Exponential Spread = "exponential"
	Pareto      Spread = "pareto" // shape 3/2: a finite mean, an infinite variance
)

// Item is one object of a web page.
type Item struct {
	After int   // it is asked for when this item is complete; -1 = when the page begins
	Wait  Time  // and so much later
	Size  int64 // bytes
}
