package simulate

// Result is what a run gave. As JSON, times are nanoseconds.
type Result struct {
	End        Time           `json:"end"`          // when the run ended
	Delivered  int64          `json:"delivered"`    // bytes read in order by the receiver
	Goodput    int64          `json:"goodput"`      // of them a second, bits, until the end
	Packets    uint64         `json:"packets"`      // data packets that arrived, copies not counted
	OutOfOrder uint64         `json:"out_of_order"` // of those, that came before an earlier one of their stream
	Extent     int64          `json:"extent"`       // the most segments that one came early (compare RFC 4737 section 4.2)
	BufferMax  int64          `json:"buffer_max"`   // bytes held at the receiver for want of earlier ones
	BufferMean int64          `json:"buffer_mean"`  // over the run
	Blocked    Time           `json:"blocked"`      // time with anything held
	Stalls     uint64         `json:"stalls"`       // the receive window was used up
	Waits      uint64         `json:"waits"`        // the scheduler had data and room and waited
	Events     uint64         `json:"events"`       // of the simulation
	Open       int            `json:"open"`         // streams not complete at the end
	Sources    []SourceResult `json:"sources"`
	Paths      []PathResult   `json:"paths"`
	Streams    []StreamResult `json:"streams,omitempty"` // the first Setup.Keep that were complete
}

// Times summarises many times; quantiles are exact to 1.6%.
type Times struct {
	Count  uint64 `json:"count"`
	Mean   Time   `json:"mean"`
	Median Time   `json:"median"`
	P95    Time   `json:"p95"`
	P99    Time   `json:"p99"`
	Max    Time   `json:"max"`
}

// SourceResult is about the streams of one source.
type SourceResult struct {
	Name     string `json:"name"`
	Arrived  uint64 `json:"arrived"`
	Bytes    int64  `json:"bytes"`          // of complete streams
	Complete Times  `json:"complete"`       // from arrival to the last byte in order
	Pages    Times  `json:"pages,omitzero"` // from a page's begin to its last item
	Late     uint64 `json:"late,omitzero"`  // complete after their deadline
}

// StreamResult is one stream.
type StreamResult struct {
	ID     uint64 `json:"id"`
	Source int    `json:"source"`
	Size   int64  `json:"size"`
	Begin  Time   `json:"begin"`
	First  Time   `json:"first"` // its first byte was there
	End    Time   `json:"end"`
}

// PathResult is about one path.
type PathResult struct {
	Name       string `json:"name"`
	Packets    uint64 `json:"packets"` // sent, probes included
	Probes     uint64 `json:"probes"`
	Again      uint64 `json:"again"`   // of them, repeats and copies
	Dropped    uint64 `json:"dropped"` // by the queue
	Lost       uint64 `json:"lost"`    // behind it
	Failed     uint64 `json:"failed"`  // with the path
	Arrived    uint64 `json:"arrived"`
	Duplicates uint64 `json:"duplicates"` // data that the receiver had, or of a stream that was over
	Missed     uint64 `json:"missed"`     // taken for lost by the sender
	Events     uint64 `json:"events"`     // congestion events
	Acks       uint64 `json:"acks"`
	Bytes      int64  `json:"bytes"`       // of data, first copies
	WireBytes  int64  `json:"wire_bytes"`  // all that left the queue, headers included
	Busy       Time   `json:"busy"`        // time spent sending
	QueueMax   int64  `json:"queue_max"`   // bytes
	QueueDelay Time   `json:"queue_delay"` // sum over the packets that left the queue
	RTT        Time   `json:"rtt"`         // smoothed, at the end
}

// measure collects what a Result needs.
type measure struct {
	outOfOrderCount uint64
	extent          int64
	bufferMax       int64
	area            float64 // byte nanoseconds
	blocked         Time
	stalls, waits   uint64
	sources         []sourceMeasure
	streams         []StreamResult
	keep            int
}

type sourceMeasure struct {
	arrived, late uint64
	bytes         int64
	complete      Histogram
	pages         Histogram
}

func (m *measure) init(s *Setup) {
	m.sources = make([]sourceMeasure, len(s.Sources))
	m.keep = s.Keep
}

func (m *measure) advance(by Time, buffered int64) {
	if buffered > 0 {
		m.area += product(float64(buffered), float64(by))
		m.blocked += by
	}
}

func (m *measure) outOfOrder(extent, buffered int64) {
	m.outOfOrderCount++
	m.extent = max(m.extent, extent)
	m.bufferMax = max(m.bufferMax, buffered)
}

func (m *measure) opened(source int) { m.sources[source].arrived++ }

func (m *measure) completed(now Time, s *stream) {
	o := &m.sources[s.source]
	o.bytes += s.size
	o.complete.add(now - s.begin)
	if s.sched.Deadline > 0 && now > s.sched.Deadline {
		o.late++
	}
	if len(m.streams) < m.keep {
		m.streams = append(m.streams, StreamResult{ID: s.id, Source: s.source, Size: s.size, Begin: s.begin, First: s.first, End: now})
	}
}

func (m *measure) pageDone(source int, took Time) { m.sources[source].pages.add(took) }

func (m *Simulation) result() Result {
	x := &m.measure
	r := Result{
		End: m.now, Delivered: m.receiver.consumed, OutOfOrder: x.outOfOrderCount, Extent: x.extent,
		BufferMax: x.bufferMax, Blocked: x.blocked, Stalls: x.stalls, Waits: x.waits,
		Events: m.events, Open: m.streams.open, Streams: x.streams,
	}
	if m.now > 0 {
		r.Goodput = mulDiv(r.Delivered*8, 1e9, int64(m.now))
		r.BufferMean = int64(x.area / float64(m.now))
	}
	for i := range x.sources {
		o := &x.sources[i]
		r.Sources = append(r.Sources, SourceResult{
			Name: m.setup.Sources[i].Name, Arrived: o.arrived, Bytes: o.bytes,
			Complete: o.complete.summary(), Pages: o.pages.summary(), Late: o.late,
		})
	}
	for i := range m.paths {
		p := &m.paths[i]
		p.counts.RTT = p.estimate.smoothed
		r.Paths = append(r.Paths, p.counts)
		r.Packets += p.counts.Arrived - p.counts.Duplicates - p.probes
	}
	return r
}
