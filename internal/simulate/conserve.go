package simulate

import (
	"errors"
	"fmt"
)

// conserved checks at the end of a run that every packet and every byte is
// accounted for. An error is a mistake of the simulator.
func (m *Simulation) conserved() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	var arrived int64
	for i := range m.paths {
		p := &m.paths[i]
		c := &p.counts
		inService := uint64(0)
		if p.serving {
			inService = 1
		}
		there := c.Dropped + c.Lost + c.Failed + c.Arrived + inService + uint64(p.queue.len()+p.flying.len())
		check(c.Packets == there, "path %s: %d packets sent, but %d dropped, lost, arrived or on the way", c.Name, c.Packets, there)
		check(c.Packets == p.sent.hi-1, "path %s: %d packets sent, but the last number is %d", c.Name, c.Packets, p.sent.hi-1)
		check(c.Busy <= m.now, "path %s: busy for %s of %s", c.Name, c.Busy, m.now)
		if rate := p.setup.Rate; rate > 0 {
			// a packet's service is rounded down by less than a nanosecond
			least := serviceTime(c.WireBytes, rate) - Time(c.Packets)
			check(c.Busy >= least, "path %s: %d bytes in %s at %d bit/s", c.Name, c.WireBytes, c.Busy, rate)
		}
		var flight int64
		for n := p.sent.lo; n < p.sent.hi; n++ {
			if x := p.sent.at(n); x.open {
				flight += int64(x.bytes)
			}
		}
		check(flight == m.sender.view.Paths[i].InFlight, "path %s: %d bytes in flight, counted %d", c.Name, m.sender.view.Paths[i].InFlight, flight)
		arrived += c.Bytes
	}
	check(arrived == m.receiver.consumed+m.receiver.buffered, "%d bytes arrived, %d read and %d held", arrived, m.receiver.consumed, m.receiver.buffered)
	check(m.sender.consumed <= m.receiver.consumed, "the sender knows of %d bytes read, the receiver of %d", m.sender.consumed, m.receiver.consumed)
	if w := m.setup.ReceiveBuffer; w > 0 {
		check(m.measure.bufferMax <= w, "%d bytes held in a buffer of %d", m.measure.bufferMax, w)
		check(m.sender.highest-m.sender.consumed <= w, "%d bytes beyond what was read, with a window of %d", m.sender.highest-m.sender.consumed, w)
	}
	m.conservedStreams(check)
	if len(errs) > 0 {
		return fmt.Errorf("the simulation lost count: %w", errors.Join(errs...))
	}
	return nil
}

// conservedStreams checks that streams are where they belong, each byte of them
// sent, to be sent, or to be sent again.
func (m *Simulation) conservedStreams(check func(bool, string, ...any)) {
	var complete, held, backlog int64
	open := 0
	for _, s := range m.streams.all {
		if s.id == 0 {
			continue
		}
		if !s.done {
			open++
			complete += min(int64(s.have)*m.setup.MSS, s.size)
		} else {
			complete += s.size
		}
		left := s.size - min(int64(s.next)*m.setup.MSS, s.size)
		for n := s.state.lo; n < s.state.hi; n++ {
			state := *s.state.at(n)
			b := m.bytes(s, n)
			if n >= s.next && state&segSent != 0 {
				left -= b
			}
			if state&segShared != 0 {
				left += b
			}
			if state&segReceived != 0 && n >= s.have {
				held += b
			}
			check(state&segAcked == 0 || state&segReceived != 0, "stream %d: segment %d is acknowledged but not there", s.id, n)
		}
		if s.inView {
			i := m.sender.index(s.id)
			check(m.sender.view.Streams[i].ID == s.id && m.sender.view.Streams[i].Remaining == left, "stream %d has %d bytes to send, the scheduler sees %d", s.id, left, m.sender.view.Streams[i].Remaining)
		} else {
			check(left == 0, "stream %d has %d bytes to send that the scheduler does not see", s.id, left)
		}
		backlog += left
	}
	check(open == m.streams.open, "%d streams are open, counted %d", m.streams.open, open)
	check(held == m.receiver.buffered, "%d bytes held, counted %d", m.receiver.buffered, held)
	check(backlog == m.sender.view.Backlog, "backlog of %d bytes, counted %d", m.sender.view.Backlog, backlog)
	for i := range m.measure.sources {
		complete += m.measure.sources[i].bytes
	}
	for _, s := range m.streams.all {
		if s.id != 0 && s.done {
			complete -= s.size // counted with its source
		}
	}
	check(complete == m.receiver.consumed, "%d bytes read, streams have %d", m.receiver.consumed, complete)
}
