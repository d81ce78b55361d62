package simulate

// serviceTime returns how long so many bytes take at so many bits a second,
// rounded down to a nanosecond.
func serviceTime(bytes, rate int64) Time { return Time(mulDiv(bytes*8, 1e9, rate)) }

// enter puts a packet into the path's queue.
func (m *Simulation) enter(p *path, k packet) {
	p.counts.Packets++
	size := m.onWire(k)
	if !p.up {
		p.counts.Failed++
		m.notify(Event{Kind: Lose, Path: p.index, Packet: k.number})
		return
	}
	if p.serving && p.queued+size > p.setup.Queue {
		m.drop(p, k)
		return
	}
	k.at = m.now
	p.queue.push(k)
	p.queued += size
	p.counts.QueueMax = max(p.counts.QueueMax, p.queued)
	if !p.serving {
		m.serve(p)
	}
}

func (m *Simulation) drop(p *path, k packet) {
	p.counts.Dropped++
	m.notify(Event{Kind: Drop, Path: p.index, Packet: k.number})
}

// onWire returns the bytes that a packet takes on the path.
func (m *Simulation) onWire(k packet) int64 { return int64(k.bytes) + m.setup.Overhead }

// serve begins to send the next packet of the queue.
func (m *Simulation) serve(p *path) {
	k, ok := m.dequeue(p)
	p.serving = ok
	if !ok {
		return
	}
	p.service, p.began = k, m.now
	p.counts.QueueDelay += m.now - k.at
	size := m.onWire(k)
	if len(p.setup.Trace) > 0 {
		m.set(p, dueServed, p.trace.finish(m.now, size))
		return
	}
	m.set(p, dueServed, m.now+serviceTime(size, p.setup.Rate))
}

// dequeue takes a packet out of the queue, with CoDel's opinion.
func (m *Simulation) dequeue(p *path) (packet, bool) {
	for p.queue.len() > 0 {
		k := p.queue.pop()
		p.queued -= m.onWire(k)
		if !p.setup.CoDel || !p.codel.drops(m.now, m.now-k.at, p.queued) {
			return k, true
		}
		m.drop(p, k)
	}
	p.codel.empty()
	return packet{}, false
}

// served is the end of a service: the packet flies, or is lost.
func (m *Simulation) served(p *path) {
	k := p.service
	p.counts.Busy += m.now - p.began
	p.counts.WireBytes += m.onWire(k)
	m.notify(Event{Kind: Leave, Path: p.index, Packet: k.number})
	if p.unlucky() {
		p.counts.Lost++
		m.notify(Event{Kind: Lose, Path: p.index, Packet: k.number})
	} else {
		k.at = m.now + p.setup.Delay
		if p.setup.Jitter > 0 {
			k.at += Time(p.dice.below(int64(p.setup.Jitter) + 1))
		}
		k.at = max(k.at, p.lastAt)
		p.lastAt = k.at
		if p.flying.len() == 0 {
			m.set(p, dueArrival, k.at)
		}
		p.flying.push(k)
	}
	m.serve(p)
}

// unlucky moves the path's state of losses and draws one packet's fate.
func (p *path) unlucky() bool {
	l := &p.setup.Loss
	if l.Enter > 0 {
		if p.bad {
			p.bad = !p.dice.happens(l.Leave)
		} else {
			p.bad = p.dice.happens(l.Enter)
		}
	}
	if p.bad {
		return p.dice.happens(l.Bad)
	}
	return p.dice.happens(l.Good)
}

// change makes the path fail, and all that is on it lost, or return.
func (m *Simulation) change(p *path) {
	c := p.setup.Changes[p.changes]
	p.changes++
	if p.changes < len(p.setup.Changes) {
		m.set(p, dueChange, p.setup.Changes[p.changes].At)
	}
	if p.up = c.Up; c.Up {
		m.notify(Event{Kind: Up, Path: p.index})
		return
	}
	m.notify(Event{Kind: Down, Path: p.index})
	if p.serving {
		m.fail(p, p.service)
		p.serving = false
	}
	for p.queue.len() > 0 {
		m.fail(p, p.queue.pop())
	}
	for p.flying.len() > 0 {
		m.fail(p, p.flying.pop())
	}
	p.queued = 0
	p.ackQueue.clear()
	p.codel.empty()
	m.set(p, dueServed, never)
	m.set(p, dueArrival, never)
	m.set(p, dueAck, never)
}

func (m *Simulation) fail(p *path, k packet) {
	p.counts.Failed++
	m.notify(Event{Kind: Lose, Path: p.index, Packet: k.number})
}

// traceService sends at the opportunities of a trace, as mahimahi does (R.
// Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC
// 2015): each takes up to TracePacket bytes, of one packet or several; a larger
// packet takes several; those with nothing to send are wasted. The trace begins
// again after its last entry.
type traceService struct {
	opportunities []Time
	next          int
	round         Time // begin of this round
	left          int64
	leftAt        Time
}

// finish returns when the last byte of a packet leaves that is first in the queue
// since now.
func (t *traceService) finish(now Time, size int64) Time {
	if t.left > 0 && t.leftAt == now {
		if t.left >= size {
			t.left -= size
			return now
		}
		size -= t.left
	}
	t.left = 0
	for {
		at := t.round + t.opportunities[t.next]
		if t.next++; t.next == len(t.opportunities) {
			t.next = 0
			t.round += t.opportunities[len(t.opportunities)-1]
		}
		if at < now {
			continue
		}
		if size <= TracePacket {
			t.left, t.leftAt = TracePacket-size, at
			return at
		}
		size -= TracePacket
	}
}
