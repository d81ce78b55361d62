package simulate

import "time"

const (
	// packetThreshold and timeThreshold are RFC 9002 section 6.1.
	packetThreshold = 3
	// maxTimeout bounds the backing off, so that a path that returns is found.
	maxTimeout = 3 * time.Second
)

// ackArrives is an acknowledgement at the sender.
func (m *Simulation) ackArrives(p *path) {
	a := p.ackQueue.pop()
	if p.ackQueue.len() > 0 {
		m.set(p, dueAck, p.ackQueue.front().at)
	}
	d := &m.sender
	more := a.consumed > d.consumed
	d.consumed = max(d.consumed, a.consumed)
	p.largest = max(p.largest, a.number)
	v := &d.view.Paths[p.index]
	note := acked{now: m.now, flight: v.InFlight}
	newest := m.settle(p, a.number, &note)
	if newest != nil {
		m.sample(p, newest, a.number, &note)
	}
	m.findLost(p)
	p.advance()
	if newest != nil {
		p.backoff = 0
		if v.Down {
			v.Down = false
		}
		if !m.kernel.on || m.ackedLinux(p, &note, newest.at >= p.recovery) {
			p.control.acked(note)
		}
		m.showWindow(p)
	}
	if m.kernel.on {
		p.setPacing(v)
		if more {
			m.dataAcked()
		}
		m.flush(p)
		m.push()
		m.enlarge(p)
	}
	m.setTimer(p)
	m.send()
}

// settle takes what arrived up to a number as acknowledged; it gives a copy of
// the newest of it, nil if there is none.
func (m *Simulation) settle(p *path, number uint64, note *acked) *sent {
	var newest *sent
	v := &m.sender.view.Paths[p.index]
	for n := p.sent.lo; n <= number && n < p.sent.hi; n++ {
		x := p.sent.at(n)
		if !x.open || !x.arrived {
			continue
		}
		x.open = false
		newest = x
		bytes := int64(x.bytes)
		v.InFlight -= bytes
		p.delivered += bytes
		note.bytes += bytes
		v.Loss -= v.Loss / 64
		m.settleSegment(x.data)
		if x.stream != 0 {
			m.notify(Event{Kind: Ack, Path: p.index, Packet: n, Stream: x.stream, Offset: x.segment * m.setup.MSS, Bytes: bytes})
		}
	}
	if newest != nil {
		p.stamp = m.now
		if p.limited > 0 && p.delivered > p.limited {
			p.limited = 0
		}
	}
	return newest
}

// settleSegment notes that a segment is known to be there, and lets go of the
// stream when all of it is.
func (m *Simulation) settleSegment(x data) {
	s := m.streams.find(x)
	if s == nil || uint64(x.segment) < s.state.lo {
		return
	}
	state := s.state.at(uint64(x.segment))
	*state--
	if *state&segAcked != 0 {
		return
	}
	if *state&segAgain != 0 {
		m.unmark(s, x)
	}
	*state |= segAcked
	for s.state.lo < s.state.hi && *s.state.at(s.state.lo)&segAcked != 0 {
		s.state.lo++
	}
	if s.state.lo == s.segments {
		m.streams.release(x.slot)
	}
}

// sample takes the round trip and the delivery rate from the newest packet of an
// acknowledgement (RFC 9002 section 5.1; draft-cheng-iccrg-delivery-rate-estimation-02).
func (m *Simulation) sample(p *path, x *sent, number uint64, note *acked) {
	if p.sent.at(number) == x {
		p.estimate.add(m.now - x.at)
		note.rtt = p.estimate.latest
		m.showEstimate(p)
	}
	note.smoothed = p.estimate.smoothed
	p.firstSent = x.at
	interval := max(x.at-x.first, m.now-x.stamp)
	if interval > 0 && interval >= p.estimate.least {
		note.rate = mulDiv(p.delivered-x.delivered, 1e9, int64(interval))
		note.limited = x.limited
		m.rate(p, note)
	}
	if x.delivered >= p.roundEnd {
		p.roundEnd = p.delivered
		note.round = true
	}
}

// rate keeps the scheduler's estimate of what the path delivers: up at once,
// down by an eighth a sample, unless the sample shows the application only.
func (m *Simulation) rate(p *path, note *acked) {
	v := &m.sender.view.Paths[p.index]
	switch {
	case note.rate > v.Rate:
		v.Rate = note.rate
	case !note.limited:
		v.Rate -= (v.Rate - note.rate) / 8
	}
}

// findLost takes for lost what was sent well before something acknowledged: by
// number at once, by time when lossAt is due (RFC 9002 section 6.1).
func (m *Simulation) findLost(p *path) {
	threshold := max(p.estimate.smoothed, p.estimate.latest) * 9 / 8
	p.lossAt = never
	for n := p.sent.lo; n < p.largest && n < p.sent.hi; n++ {
		x := p.sent.at(n)
		if !x.open {
			continue
		}
		if n+packetThreshold <= p.largest || x.at+threshold <= m.now {
			m.lose(p, n, x)
			continue
		}
		p.lossAt = min(p.lossAt, x.at+threshold)
	}
}

// lose takes one packet for lost.
func (m *Simulation) lose(p *path, n uint64, x *sent) {
	x.open = false
	v := &m.sender.view.Paths[p.index]
	v.InFlight -= int64(x.bytes)
	p.counts.Missed++
	v.Loss += (1_000_000 - v.Loss) / 64
	if x.stream != 0 {
		m.notify(Event{Kind: Miss, Path: p.index, Packet: n, Stream: x.stream, Offset: x.segment * m.setup.MSS, Bytes: int64(x.bytes)})
		m.loseSegment(p, x.data)
	}
	if x.at > p.recovery && x.bytes > 0 {
		before := p.control.window()
		p.recovery = m.now
		p.counts.Events++
		p.control.lost(m.now)
		if m.kernel.on {
			p.subflow.prr.begin(before, p.control.window(), v.InFlight, m.setup.MSS, p.sent.hi-1)
		}
		m.showWindow(p)
	}
}

// loseSegment puts a segment back unless another copy is on its way or there.
func (m *Simulation) loseSegment(p *path, d data) {
	if m.kernel.on {
		p.again.push(d)
		p.subflow.lost += int64(d.bytes)
	}
	s := m.streams.find(d)
	if s == nil || uint64(d.segment) < s.state.lo {
		return
	}
	state := s.state.at(uint64(d.segment))
	*state--
	if !m.kernel.on && *state&(segAcked|segAgain|segCopies) == 0 {
		m.mark(p, s, d)
	}
}

// advance forgets the packets at the lower end that are settled.
func (p *path) advance() {
	for p.sent.lo < p.sent.hi && !p.sent.at(p.sent.lo).open {
		p.sent.lo++
	}
}

func (m *Simulation) showWindow(p *path) {
	v := &m.sender.view.Paths[p.index]
	w := p.control.window()
	if p.subflow.prr.on {
		w = max(p.subflow.prr.window, m.setup.MSS)
	}
	if w != v.Window {
		v.Window = w
		m.notify(Event{Kind: Window, Path: p.index, Bytes: w})
	}
}

// setTimer arms loss detection (RFC 9002 section 6.2.1 and appendix A.8).
func (m *Simulation) setTimer(p *path) {
	at := p.lossAt
	if at == never && p.sent.lo < p.sent.hi {
		if m.kernel.on {
			m.set(p, dueTimer, m.timerLinux(p))
			return
		}
		at = p.lastSent + min(p.estimate.timeout(m.setup.AckDelay)<<p.backoff, maxTimeout)
	}
	m.set(p, dueTimer, at)
}

// timer is a hole that is old enough, or a path that does not answer.
func (m *Simulation) timer(p *path) {
	if p.lossAt != never {
		m.findLost(p)
		p.advance()
		m.setTimer(p)
		m.send()
		return
	}
	if m.kernel.on {
		m.struck(p)
		m.setTimer(p)
		m.send()
		return
	}
	p.backoff = min(p.backoff+1, 16)
	if p.backoff >= 2 {
		m.giveUp(p)
	}
	m.transmit(p, data{}, false)
	p.counts.Probes++
	m.send()
}

// giveUp takes all in flight for lost and the path for failed, until a probe is
// answered: other paths carry what it had (RFC 8684 section 3.3.6).
func (m *Simulation) giveUp(p *path) {
	v := &m.sender.view.Paths[p.index]
	if !v.Down {
		v.Down = true
		p.control.timeout()
		p.recovery = m.now
		m.showWindow(p)
		for p.again.len() > 0 {
			if x := p.again.pop(); m.waiting(x) != nil {
				m.share(m.streams.find(x), x)
			}
		}
	}
	for n := p.sent.lo; n < p.sent.hi; n++ {
		if x := p.sent.at(n); x.open {
			m.lose(p, n, x)
		}
	}
	p.advance()
}
