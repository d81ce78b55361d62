package simulate

import (
	"time"

	"weft/schedule"
)

// sender is what the paths' sending ends share.
type sender struct {
	scheduler schedule.Scheduler
	view      schedule.View
	slots     []int32    // of the streams in the View
	again     ring[data] // to be sent again, where the scheduler says
	highest   int64      // sum of the streams' ends of what was sent, bytes
	consumed  int64      // what the receiver said it has read
	stalled   bool
	repeats   bool         // each path carries everything (schedule.Repeater)
	log       window[data] // then: what was sent, from the oldest not acknowledged
}

// sent is a packet on its way, as its sender remembers it.
type sent struct {
	data
	open      bool // neither acknowledged nor given up
	arrived   bool // the receiver will say so in its next acknowledgement
	at        Time
	delivered int64 // path.delivered when it was sent
	stamp     Time  // path.stamp
	first     Time  // path.firstSent
	limited   bool
}

// send lets the scheduler decide until it waits or nothing is left.
func (m *Simulation) send() {
	if m.kernel.on {
		m.sendLinux()
		return
	}
	if m.setup.SamePath {
		m.sendAgainOnSamePath()
	}
	d := &m.sender
	if d.repeats {
		m.repeat()
	}
	for m.sendAgain() {
	}
	if d.again.len() > 0 {
		return
	}
	for len(d.view.Streams) > 0 {
		if d.view.Window > 0 {
			d.view.WindowLeft = d.view.Window - (d.highest - d.consumed)
			if d.view.WindowLeft < m.setup.MSS {
				m.stall()
				return
			}
		}
		d.stalled = false
		c, ok := d.scheduler.Next(&d.view)
		if !ok {
			m.waits()
			return
		}
		if !m.sendNew(c) {
			return
		}
		if d.repeats {
			m.repeat()
		}
	}
	m.markLimited()
}

// waits records that the scheduler had a choice and did not take it.
func (m *Simulation) waits() {
	for i := range m.sender.view.Paths {
		if m.sender.view.Paths[i].Room(m.setup.MSS) {
			m.measure.waits++
			m.notify(Event{Kind: Wait, Path: i})
			return
		}
	}
}

// stall is a receive window that is used up. What fills gaps (of a scheduler
// that skips) goes on: it needs no new room.
func (m *Simulation) stall() {
	d := &m.sender
	m.stalled()
	for i := 0; i < len(d.view.Streams); {
		s := m.streams.all[d.slots[i]]
		if s.next >= s.state.hi {
			i++
			continue
		}
		c, ok := m.askFor(i)
		if !ok {
			return
		}
		c.Stream, c.Skip = i, 0
		m.sendNew(c)
	}
}

// stalled counts a receive window that is used up, once until data can be sent.
func (m *Simulation) stalled() {
	if d := &m.sender; !d.stalled {
		d.stalled = true
		d.view.Stalls++
		m.measure.stalls++
	}
}

// askFor lets the scheduler choose a path for one stream.
func (m *Simulation) askFor(i int) (schedule.Decision, bool) {
	v := &m.sender.view
	all := v.Streams
	v.Streams = all[i : i+1]
	c, ok := m.sender.scheduler.Next(v)
	v.Streams = all
	return c, ok
}

// markLimited notes that rate samples from now on show the application, not the
// path (draft-cheng-iccrg-delivery-rate-estimation-02 section 3.4).
func (m *Simulation) markLimited() {
	for i := range m.paths {
		p := &m.paths[i]
		p.limited = max(1, p.delivered+m.sender.view.Paths[i].InFlight)
	}
}

// sendNew carries out a decision about data that was never sent. It says false
// where the receive window forbids it.
func (m *Simulation) sendNew(c schedule.Decision) bool {
	d := &m.sender
	slot := d.slots[c.Stream]
	s := m.streams.all[slot]
	v := &d.view.Streams[c.Stream]
	n := s.unsent(uint64(c.Skip / m.setup.MSS))
	if n >= s.segments {
		return false
	}
	if n >= s.state.hi {
		end := min(int64(n+1)*m.setup.MSS, s.size)
		more := end - min(int64(s.state.hi)*m.setup.MSS, s.size)
		if d.view.Window > 0 && more > d.view.WindowLeft {
			return false
		}
		d.highest += more
		s.state.extend(n)
	}
	*s.state.at(n) |= segSent
	for s.next < s.state.hi && *s.state.at(s.next)&segSent != 0 {
		s.next++
	}
	b := m.bytes(s, n)
	v.Remaining -= b
	v.Sent += b
	d.view.Backlog -= b
	d.view.Last = s.id
	x := data{stream: s.id, slot: slot, bytes: int32(b), segment: int64(n)}
	if v.Remaining == 0 {
		d.hide(c.Stream, s)
	}
	m.copies(c.Paths, s, x, false)
	if d.repeats {
		m.logSent(c.Paths, x)
	}
	return true
}

// unsent returns the first segment never sent, after leaving out so many of them.
func (s *stream) unsent(skip uint64) uint64 {
	n := s.next
	for {
		for n < s.state.hi && *s.state.at(n)&segSent != 0 {
			n++
		}
		if skip == 0 {
			return n
		}
		if n >= s.state.hi {
			return n + skip
		}
		n++
		skip--
	}
}

// copies sends a segment on each path of the set.
func (m *Simulation) copies(set schedule.PathSet, s *stream, x data, again bool) {
	for ; set != 0; set &= set - 1 {
		*s.state.at(uint64(x.segment))++
		m.transmit(&m.paths[set.First()], x, again)
		again = true
	}
}

// sendAgain sends the oldest lost segment where the scheduler says. It says
// false if there is none, or if the scheduler waits.
func (m *Simulation) sendAgain() bool {
	d := &m.sender
	for d.again.len() > 0 {
		x := *d.again.front()
		s := m.waiting(x)
		if s == nil {
			d.again.pop()
			continue
		}
		c, ok := m.askFor(d.index(s.id))
		if !ok {
			m.waits()
			return false
		}
		d.again.pop()
		m.unmark(s, x)
		m.copies(c.Paths, s, x, true)
		return true
	}
	return false
}

// sendAgainOnSamePath sends what each path lost on that path.
func (m *Simulation) sendAgainOnSamePath() {
	for i := range m.paths {
		p := &m.paths[i]
		for p.again.len() > 0 && m.sender.view.Paths[i].Room(m.setup.MSS) {
			x := p.again.pop()
			if s := m.waiting(x); s != nil {
				m.unmark(s, x)
				m.copies(schedule.Only(i), s, x, true)
			}
		}
	}
}

// waiting returns the stream of a segment that still has to be sent again, nil if
// that is not so any more.
func (m *Simulation) waiting(x data) *stream {
	s := m.streams.find(x)
	if s == nil || uint64(x.segment) < s.state.lo || *s.state.at(uint64(x.segment))&segAgain == 0 {
		return nil
	}
	return s
}

// mark notes that a segment is to be sent again, on the path that lost it or
// where the scheduler says.
func (m *Simulation) mark(p *path, s *stream, x data) {
	*s.state.at(uint64(x.segment)) |= segAgain
	if m.setup.SamePath && !m.sender.view.Paths[p.index].Down {
		p.again.push(x)
		return
	}
	m.share(s, x)
}

// share lets the scheduler choose the path of a segment that is to be sent again.
func (m *Simulation) share(s *stream, x data) {
	d := &m.sender
	*s.state.at(uint64(x.segment)) |= segShared
	d.show(x.slot, s)
	d.view.Streams[d.index(s.id)].Remaining += int64(x.bytes)
	d.view.Backlog += int64(x.bytes)
	d.again.push(x)
}

// unmark is the end of either.
func (m *Simulation) unmark(s *stream, x data) {
	d := &m.sender
	state := s.state.at(uint64(x.segment))
	shared := *state&segShared != 0
	*state &^= segAgain | segShared
	if !shared {
		return
	}
	i := d.index(s.id)
	v := &d.view.Streams[i]
	v.Remaining -= int64(x.bytes)
	d.view.Backlog -= int64(x.bytes)
	if v.Remaining == 0 {
		d.hide(i, s)
	}
}

// transmit sends one packet on a path.
func (m *Simulation) transmit(p *path, x data, again bool) {
	v := &m.sender.view.Paths[p.index]
	n := p.sent.hi
	p.sent.extend(n)
	if v.InFlight == 0 {
		p.stamp, p.firstSent, p.subflow.armed = m.now, m.now, m.now
		if r, ok := p.control.(interface{ resumed(idle time.Duration) }); ok && p.lastSent > 0 {
			r.resumed(m.now - p.lastSent)
		}
	}
	*p.sent.at(n) = sent{
		data: x, open: true, at: m.now,
		delivered: p.delivered, stamp: p.stamp, first: p.firstSent, limited: p.limited > 0,
	}
	v.InFlight += int64(x.bytes)
	p.lastSent = m.now
	if again {
		p.counts.Again++
	}
	m.pace(p, int64(x.bytes))
	m.setTimer(p)
	m.notify(Event{Kind: Send, Path: p.index, Packet: n, Stream: x.stream, Offset: x.segment * m.setup.MSS, Bytes: int64(x.bytes), Again: again})
	m.enter(p, packet{number: n, data: x})
}

// pace holds the path until its rate allows the next packet.
func (m *Simulation) pace(p *path, bytes int64) {
	rate := p.control.pace()
	if rate == 0 {
		return
	}
	p.paceNext = max(p.paceNext, m.now) + Time(mulDiv(bytes, 1e9, rate))
	if p.paceNext > m.now {
		m.sender.view.Paths[p.index].Held = true
		m.set(p, duePace, p.paceNext)
	}
}
