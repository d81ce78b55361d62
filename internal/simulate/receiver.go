package simulate

// receiver is what the paths' receiving ends share.
type receiver struct {
	consumed int64 // bytes read in order, of all streams
	buffered int64 // bytes that wait for something missing
}

// packetArrives is a packet at the end of its path.
func (m *Simulation) packetArrives(p *path) {
	k := p.flying.pop()
	if p.flying.len() > 0 {
		m.set(p, dueArrival, p.flying.front().at)
	}
	p.counts.Arrived++
	gap := k.number != p.expected
	p.expected = k.number + 1
	if k.number >= p.sent.lo && k.number < p.sent.hi {
		p.sent.at(k.number).arrived = true
	}
	if k.stream != 0 {
		m.notify(Event{Kind: Receive, Path: p.index, Packet: k.number, Stream: k.stream, Offset: k.segment * m.setup.MSS, Bytes: int64(k.bytes)})
		m.take(p, k.data)
	} else {
		p.probes++
	}
	// RFC 9002 section 6.2.1, RFC 9000 section 13.2.1: at once when something is
	// missing, or when enough has come.
	p.pending++
	switch {
	case gap || p.pending >= m.setup.AckEvery || k.stream == 0:
		m.acknowledge(p)
	case p.pending == 1:
		m.set(p, dueDelayed, m.now+m.setup.AckDelay)
	}
}

// take puts a segment into its stream.
func (m *Simulation) take(p *path, d data) {
	s := m.streams.find(d)
	n := uint64(d.segment)
	if s == nil || n < s.have || *s.state.at(n)&segReceived != 0 {
		p.counts.Duplicates++
		return
	}
	p.counts.Bytes += int64(d.bytes)
	*s.state.at(n) |= segReceived
	if n > s.have {
		s.buffer++
		m.receiver.buffered += int64(d.bytes)
		m.measure.outOfOrder(int64(n-s.have), m.receiver.buffered)
		return
	}
	m.receiver.consumed += int64(d.bytes)
	if s.first < 0 {
		s.first = m.now
	}
	for s.have++; s.buffer > 0 && *s.state.at(s.have)&segReceived != 0; s.have++ {
		b := m.bytes(s, s.have)
		s.buffer--
		m.receiver.buffered -= b
		m.receiver.consumed += b
	}
	m.notify(Event{Kind: Progress, Stream: s.id, Offset: min(int64(s.have)*m.setup.MSS, s.size)})
	if s.have == s.segments {
		m.complete(s)
	}
}

// complete is a stream that is whole at the receiver.
func (m *Simulation) complete(s *stream) {
	s.done = true
	m.streams.open--
	m.notify(Event{Kind: Done, Stream: s.id})
	m.measure.completed(m.now, s)
	if s.page != nil && m.arrivals.itemDone(m.now, s) {
		m.measure.pageDone(s.source, m.now-s.page.begin)
	}
	m.dueStream()
}

// acknowledge sends an acknowledgement of all that has come on the path.
func (m *Simulation) acknowledge(p *path) {
	p.pending = 0
	m.set(p, dueDelayed, never)
	p.counts.Acks++
	if !p.up || p.dice.happens(p.setup.AckLoss) {
		return
	}
	a := ackPacket{at: m.now + p.setup.Back, number: p.expected - 1, consumed: m.receiver.consumed}
	if p.ackQueue.len() == 0 {
		m.set(p, dueAck, a.at)
	}
	p.ackQueue.push(a)
}
