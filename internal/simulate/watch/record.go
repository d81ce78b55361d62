package watch

import (
	"fmt"
	"math"

	"weft/internal/simulate"
)

// Limits bound a run that a page asks for.
type Limits struct {
	Packets int    // that a trace may hold: its window ends early
	Streams int    // in a trace, and at the same time in the run
	Flight  int    // packets that the sender waits for at the same time
	Events  uint64 // of the run
}

// DefaultLimits let a run take seconds and a trace some megabytes.
func DefaultLimits() Limits {
	return Limits{Packets: 60_000, Streams: 3_000, Flight: 300_000, Events: 60_000_000}
}

// Fate is what became of a packet.
type Fate uint8

const (
	Travels Fate = iota // at the end of the run it was still on its way
	Arrived
	Dropped // by the queue
	Lost    // behind it
	Failed  // with its path
)

// packet is one row of a trace. Times are never where that did not happen.
type packet struct {
	number uint64
	stream uint64 // 0 = a probe
	offset int64
	bytes  int64
	sent   simulate.Time
	left   simulate.Time // the bottleneck had sent it
	end    simulate.Time // its Fate
	known  simulate.Time // the sender took it for arrived, or for lost
	fate   Fate
	again  bool
	missed bool // taken for lost
}

const never simulate.Time = math.MaxInt64

// over tells when nothing more happens to it.
func (p *packet) over() simulate.Time { return max(p.end, p.known) }

// lane is what is remembered of one path.
type lane struct {
	first   uint64 // number of packets[0]
	packets []packet
	windows []window
	down    bool
	before  Counts // of packets that are not in the trace
}

// window is a congestion window from some time on.
type window struct {
	at    simulate.Time
	bytes int64
}

// Counts says what became of packets.
type Counts struct {
	Sent    uint64 `json:"sent"`
	Arrived uint64 `json:"arrived"`
	Dropped uint64 `json:"dropped"`
	Lost    uint64 `json:"lost"`
	Failed  uint64 `json:"failed"`
}

func (c *Counts) add(f Fate) {
	c.Sent++
	switch f {
	case Arrived:
		c.Arrived++
	case Dropped:
		c.Dropped++
	case Lost:
		c.Lost++
	case Failed:
		c.Failed++
	}
}

// flow is one stream.
type flow struct {
	id     uint64
	source int
	size   int64
	arrive simulate.Time
	done   simulate.Time
	base   int64 // bytes in order when the window began
	have   int64 // bytes in order
}

// span is a time in which the scheduler had data and room, and waited.
type span struct{ from, to simulate.Time }

// change is a path that fails or returns.
type change struct {
	at   simulate.Time
	path int
	up   bool
}

// recorder keeps of a run what a page needs to show the window [from, to] at any
// time of it. Before the window it forgets what is over, so that a late window
// of a long run takes no more memory than an early one.
type recorder struct {
	from, to simulate.Time
	limits   Limits
	setup    *simulate.Setup
	lanes    []lane
	flows    []*flow // of the window, by ID
	open     map[uint64]*flow
	waits    []span
	changes  []change
	rows     int
	flight   int
	events   uint64
	early    bool   // the window was cut short
	doneOf   uint64 // streams that were complete before the window
	bytesOf  int64  // and their bytes
}

func newRecorder(s *simulate.Setup, from, to simulate.Time, l Limits) *recorder {
	r := &recorder{from: from, to: to, limits: l, setup: s, lanes: make([]lane, len(s.Paths)), open: map[uint64]*flow{}}
	for i := range r.lanes {
		r.lanes[i].first = 1
		r.lanes[i].down = s.Paths[i].StartDown
		if s.Paths[i].StartDown {
			r.changes = append(r.changes, change{path: i})
		}
		r.lanes[i].windows = []window{{bytes: s.InitialWindow * s.MSS}}
	}
	return r
}

// tooMuch ends a run from within its recorder.
type tooMuch struct{ error }

func (r *recorder) refuse(format string, args ...any) {
	panic(tooMuch{fmt.Errorf(format, args...)})
}

// record is a simulate.Recorder.
func (r *recorder) record(e simulate.Event) {
	if r.events++; r.events > r.limits.Events {
		r.refuse("the run has more than %d million events: shorten it (scenario.end), or take slower paths or smaller streams", r.limits.Events/1_000_000)
	}
	l := &r.lanes[e.Path]
	switch e.Kind {
	case simulate.Arrive:
		r.arrive(e)
	case simulate.Send:
		r.send(l, e)
	case simulate.Leave:
		if p := l.find(e.Packet); p != nil {
			p.left = e.At
			if p.stream == 0 { // nothing tells of a probe's arrival
				s := &r.setup.Paths[e.Path]
				p.end, p.known, p.fate = e.At+s.Delay, e.At+s.Delay+s.Back, Arrived
			}
		}
	case simulate.Drop:
		l.end(e, Dropped)
	case simulate.Lose:
		if l.down {
			l.end(e, Failed)
		} else {
			l.end(e, Lost)
		}
	case simulate.Receive:
		l.end(e, Arrived)
	case simulate.Ack, simulate.Miss:
		if e.Stream != 0 { // events of probes have fewer fields
			r.flight--
		}
		if p := l.find(e.Packet); p != nil {
			p.known, p.missed = e.At, e.Kind == simulate.Miss
		}
		r.forget(l, e.At)
	case simulate.Progress:
		r.progress(e)
	case simulate.Done:
		r.finish(e)
	case simulate.Window:
		r.window(l, e)
	case simulate.Wait:
		r.wait(e.At)
	case simulate.Up, simulate.Down:
		l.down = e.Kind == simulate.Down
		r.changes = append(r.changes, change{e.At, e.Path, e.Kind == simulate.Up})
	}
}

// within reports whether something that begins now is still in the window.
func (r *recorder) within(at simulate.Time) bool { return at <= r.to }

// close ends the window before now.
func (r *recorder) close(now simulate.Time) {
	if now <= r.from {
		r.refuse("more than %d packets and %d streams are under way at %s: that is too much to draw", r.limits.Packets, r.limits.Streams, r.from)
	}
	r.to, r.early = now-1, true
}

func (r *recorder) arrive(e simulate.Event) {
	if len(r.open) >= r.limits.Streams {
		r.refuse("more than %d streams are open at %s: let fewer arrive, or smaller ones", r.limits.Streams, e.At)
	}
	f := &flow{id: e.Stream, source: e.Source, size: e.Bytes, arrive: e.At, done: never}
	r.open[f.id] = f
	if !r.within(e.At) {
		return
	}
	if len(r.flows) >= r.limits.Streams {
		r.close(e.At)
		return
	}
	r.flows = append(r.flows, f)
}

func (r *recorder) send(l *lane, e simulate.Event) {
	if n := len(r.waits); n > 0 && r.waits[n-1].to == never {
		r.waits[n-1].to = e.At
	}
	if e.Stream != 0 {
		r.flight++
	}
	if r.flight > r.limits.Flight {
		r.refuse("more than %d packets are in flight at %s: take slower or shorter paths", r.limits.Flight, e.At)
	}
	if r.within(e.At) && r.rows >= r.limits.Packets {
		r.close(e.At)
	}
	if !r.within(e.At) {
		return
	}
	r.rows++
	l.packets = append(l.packets, packet{
		number: e.Packet, stream: e.Stream, offset: e.Offset, bytes: e.Bytes, again: e.Again,
		sent: e.At, left: never, end: never, known: never,
	})
}

// find returns a packet that is remembered, else nil.
func (l *lane) find(number uint64) *packet {
	i := number - l.first
	if number < l.first || i >= uint64(len(l.packets)) {
		return nil
	}
	return &l.packets[i]
}

func (l *lane) end(e simulate.Event, f Fate) {
	if p := l.find(e.Packet); p != nil {
		p.end, p.fate = e.At, f
		if p.stream == 0 {
			p.known = e.At
		}
	}
}

// forget lets go of packets that were over before the window, and whose data was
// read by then.
func (r *recorder) forget(l *lane, now simulate.Time) {
	if now > r.from {
		return
	}
	n := 0
	for n < len(l.packets) && l.packets[n].over() <= now && !r.held(&l.packets[n]) {
		l.before.add(l.packets[n].fate)
		n++
	}
	if n == 0 {
		return
	}
	l.first += uint64(n)
	r.rows -= n
	l.packets = l.packets[n:]
}

// held reports whether a packet's data waits at the receiver, or may yet arrive
// by another copy.
func (r *recorder) held(p *packet) bool {
	f := r.open[p.stream]
	return f != nil && p.offset >= f.have
}

func (r *recorder) progress(e simulate.Event) {
	f := r.open[e.Stream]
	if f == nil {
		return
	}
	f.have = e.Offset
	if e.At <= r.from {
		f.base = e.Offset
	}
}

func (r *recorder) finish(e simulate.Event) {
	f := r.open[e.Stream]
	if f == nil {
		return
	}
	f.done = e.At
	delete(r.open, e.Stream)
	if e.At > r.from {
		return
	}
	r.doneOf++
	r.bytesOf += f.size
	for i := range r.flows {
		if r.flows[i] == f {
			r.flows = append(r.flows[:i], r.flows[i+1:]...)
			return
		}
	}
}

func (r *recorder) window(l *lane, e simulate.Event) {
	w := window{e.At, e.Bytes}
	n := len(l.windows)
	switch {
	case e.At > r.to:
	case e.At <= r.from, l.windows[n-1].at == e.At:
		l.windows[n-1] = w
	case n >= r.limits.Packets: // each acknowledgement may change it
		r.close(e.At)
	default:
		l.windows = append(l.windows, w)
	}
}

func (r *recorder) wait(at simulate.Time) {
	n := len(r.waits)
	if at > r.to || n > 0 && r.waits[n-1].to == never {
		return
	}
	if n > 0 && r.waits[n-1].to <= r.from {
		r.waits = r.waits[:n-1]
		n--
	}
	if n < r.limits.Packets {
		r.waits = append(r.waits, span{at, never})
	}
}
