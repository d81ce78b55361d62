package simulate

import (
	"time"
)

// packet is what travels.
type packet struct {
	number uint64 // on its path, from 1
	at     Time   // entered the queue, or arrives
	data
}

// data is the content of a packet: one segment of a stream. Probes have bytes 0.
type data struct {
	stream  uint64 // ID; 0 = a probe
	slot    int32  // where the stream is while it lives
	bytes   int32
	segment int64
}

// path is one path: the link, the receiver's half and the sender's.
type path struct {
	index int
	setup *PathSetup
	dice  *dice

	// the link
	up       bool
	queue    ring[packet]
	queued   int64 // bytes on the wire's scale
	serving  bool
	service  packet
	began    Time // of the service
	flying   ring[packet]
	lastAt   Time // no packet arrives before it
	bad      bool // Gilbert and Elliott's state
	codel    codel
	trace    traceService
	changes  int
	ackQueue ring[ackPacket]

	// the receiver
	expected uint64 // number
	pending  int    // packets not acknowledged
	probes   uint64 // arrived

	// the sender
	sent      window[sent]
	control   control
	estimate  estimate
	largest   uint64 // acknowledged number
	recovery  Time   // losses of packets sent before are of the same event
	backoff   int
	lossAt    Time // when the oldest hole is taken for lost, never if there is none
	lastSent  Time
	delivered int64 // bytes acknowledged so far
	stamp     Time  // when that last grew
	firstSent Time  // send time of the packet that was acknowledged last
	roundEnd  int64 // a round is over when what was sent after it is acknowledged
	limited   int64 // samples are application-limited until delivered is beyond it
	paceNext  Time
	cursor    uint64     // what the path has carried of sender.log
	again     ring[data] // to be sent again here, with Setup.SamePath or Linux
	subflow   subflow    // with Setup.Linux

	counts PathResult
}

// ackPacket acknowledges all packets that have arrived up to a number.
type ackPacket struct {
	at       Time
	number   uint64
	consumed int64 // bytes that the receiver has read, of the whole connection
}

// estimate is the round trip as RFC 6298 and RFC 9002 have it.
type estimate struct {
	smoothed, variance, least, latest time.Duration
	sampled                           bool
}

func (e *estimate) add(rtt time.Duration) {
	e.latest = rtt
	if !e.sampled {
		e.sampled, e.smoothed, e.variance, e.least = true, rtt, rtt/2, rtt
		return
	}
	e.least = min(e.least, rtt)
	e.variance += ((e.smoothed - rtt).Abs() - e.variance) / 4
	e.smoothed += (rtt - e.smoothed) / 8
}

// timeout returns the probe timeout (RFC 9002 section 6.2.1).
func (e *estimate) timeout(ackDelay time.Duration) time.Duration {
	return e.smoothed + max(4*e.variance, time.Millisecond) + ackDelay
}

func (m *Simulation) initPath(i int, c control) {
	p := &m.paths[i]
	s := &m.setup.Paths[i]
	*p = path{
		index: i, setup: s, dice: newDice(m.setup.Seed, "path", i), up: !s.StartDown,
		control: c, recovery: -1, lossAt: never, expected: 1, trace: traceService{opportunities: s.Trace},
	}
	p.sent.lo, p.sent.hi = 1, 1
	p.codel = codel{target: s.Target, interval: s.Interval, mtu: m.setup.MSS + m.setup.Overhead}
	p.counts.Name = s.Name
	// The handshake has measured an empty path (RFC 8684 section 2).
	handshake := s.Delay + s.Back
	if s.Rate > 0 {
		handshake += serviceTime(m.setup.Overhead, s.Rate)
	}
	p.estimate = estimate{smoothed: handshake, variance: handshake / 2, least: handshake}
	v := &m.sender.view.Paths[i]
	v.Weight = s.Weight
	m.showEstimate(p)
	v.Window = c.window()
	if len(s.Changes) > 0 {
		m.set(p, dueChange, s.Changes[0].At)
	}
}

// showEstimate tells the scheduler what is known of the path.
func (m *Simulation) showEstimate(p *path) {
	v := &m.sender.view.Paths[p.index]
	v.RTT, v.RTTVar, v.MinRTT = p.estimate.smoothed, p.estimate.variance, p.estimate.least
}
