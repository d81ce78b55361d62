package simulate

import (
	"slices"
	"sort"

	"weft/schedule"
)

// Bits of a segment's state; the rest counts copies in flight.
const (
	segSent     uint16 = 1 << 15 // was sent at least once
	segReceived uint16 = 1 << 14 // is at the receiver
	segAcked    uint16 = 1 << 13 // the sender knows
	segAgain    uint16 = 1 << 12 // waits to be sent again
	segShared   uint16 = 1 << 11 // and the scheduler says where
	segCopies   uint16 = 1<<11 - 1
)

// stream is one stream at both ends.
type stream struct {
	id       uint64 // 0 = the slot is free
	source   int
	size     int64
	segments uint64
	begin    Time
	sched    schedule.Stream // while the stream is not in the View

	// the sender
	state   window[uint16] // of the segments from the first one not acknowledged
	next    uint64         // the first segment that was never sent
	written uint64         // with Setup.Linux: segments in the send buffer, or beyond it
	inView  bool

	// the receiver
	have   uint64 // all segments below are there
	buffer int    // segments beyond
	done   bool

	page  *page // the web page that it belongs to
	item  int
	first Time // of the first byte in order, -1 = not yet
}

// streams holds the live streams in slots that are used again.
type streams struct {
	all    []*stream
	free   []int32
	lastID uint64
	open   int // not complete at the receiver
}

func (s *streams) new() (int32, *stream) {
	var slot int32
	if n := len(s.free); n > 0 {
		slot = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		slot = int32(len(s.all))
		s.all = append(s.all, &stream{})
	}
	x := s.all[slot]
	s.lastID++
	memory := x.state.items
	*x = stream{id: s.lastID, first: -1}
	x.state.items = memory
	s.open++
	return slot, x
}

// find returns the stream of a packet, nil if it is gone.
func (s *streams) find(d data) *stream {
	if x := s.all[d.slot]; x.id == d.stream {
		return x
	}
	return nil
}

func (s *streams) release(slot int32) {
	s.all[slot].id = 0
	s.free = append(s.free, slot)
}

// bytes returns the length of a segment.
func (m *Simulation) bytes(s *stream, segment uint64) int64 {
	return min(m.setup.MSS, s.size-int64(segment)*m.setup.MSS)
}

// streamArrives takes the next stream from its source.
func (m *Simulation) streamArrives() {
	a, ok := m.arrivals.pop()
	m.dueStream()
	if !ok {
		return
	}
	m.open(a)
	m.send()
}

func (m *Simulation) dueStream() { m.due[len(m.due)-1] = m.arrivals.next() }

func (m *Simulation) open(a arrival) {
	source := &m.setup.Sources[a.source]
	slot, s := m.streams.new()
	s.source, s.size, s.begin, s.page, s.item = a.source, a.size, m.now, a.page, a.item
	s.segments = uint64((a.size + m.setup.MSS - 1) / m.setup.MSS)
	s.sched = schedule.Stream{ID: s.id, Remaining: a.size, Priority: source.Priority, Weight: source.Weight}
	if source.Deadline > 0 {
		s.sched.Deadline = m.now + source.Deadline
	}
	m.sender.view.Backlog += a.size
	m.sender.show(slot, s)
	m.measure.opened(a.source)
	m.notify(Event{Kind: Arrive, Stream: s.id, Bytes: a.size, Source: a.source})
}

// show puts a stream into the View, in the order of IDs.
func (d *sender) show(slot int32, s *stream) {
	if s.inView {
		return
	}
	v := &d.view
	i := len(v.Streams)
	if i > 0 && v.Streams[i-1].ID > s.id {
		i = sort.Search(i, func(k int) bool { return v.Streams[k].ID > s.id })
	}
	s.sched.Note = 0
	v.Streams = slices.Insert(v.Streams, i, s.sched)
	d.slots = slices.Insert(d.slots, i, slot)
	s.inView = true
	v.Changed++
}

// hide takes it out when it has nothing to send.
func (d *sender) hide(i int, s *stream) {
	s.sched = d.view.Streams[i]
	d.view.Streams = slices.Delete(d.view.Streams, i, i+1)
	d.slots = slices.Delete(d.slots, i, i+1)
	s.inView = false
	d.view.Changed++
}

// index returns where a stream is in the View.
func (d *sender) index(id uint64) int {
	return sort.Search(len(d.view.Streams), func(k int) bool { return d.view.Streams[k].ID >= id })
}
