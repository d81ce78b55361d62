package watch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
)

// Magic begins every trace; its last digit is the version of the format.
const Magic = "weftrun1"

// Trace is a window of a run, for a page to show at any time of it. Encoded it is
// Magic, the length of the header (32 bits), the header in JSON padded with
// spaces to a multiple of 8 bytes, then the columns, each padded alike. Numbers
// are little-endian. Times are nanoseconds in floating point, exact up to 104
// days, +Inf for never.
type Trace struct {
	Header Header
	rows   []row
	lanes  []lane
	waits  []span
}

type row struct {
	*packet
	stream int // index into Header.Streams, -1 for a probe
}

// Header describes a trace.
type Header struct {
	Scenario  string          `json:"scenario"`
	Scheduler string          `json:"scheduler"`
	From      simulate.Time   `json:"from"` // the window
	To        simulate.Time   `json:"to"`
	Cut       bool            `json:"cut"` // there is more after it
	MSS       int64           `json:"mss"`
	Overhead  int64           `json:"overhead"`
	Buffer    int64           `json:"buffer"` // of the receiver, 0 without limit
	Before    Before          `json:"before"`
	Paths     []PathHeader    `json:"paths"`
	Sources   []string        `json:"sources"`
	Streams   []StreamHeader  `json:"streams"` // by ID
	Changes   []ChangeHeader  `json:"changes"` // of paths, by time
	Result    simulate.Result `json:"result"`  // of the whole run
	Columns   []Column        `json:"columns"`
}

// Before sums up the streams that were complete before the window.
type Before struct {
	Streams uint64 `json:"streams"`
	Bytes   int64  `json:"bytes"`
}

// PathHeader is a path, and where its packets and windows are in the columns.
type PathHeader struct {
	Name    string        `json:"name"`
	Rate    int64         `json:"rate"` // bits a second; 0 = it follows a trace
	Delay   simulate.Time `json:"delay"`
	Queue   int64         `json:"queue"` // bytes
	Packets [2]int        `json:"packets"`
	Windows [2]int        `json:"windows"`
	Before  Counts        `json:"before"`
}

// StreamHeader is a stream.
type StreamHeader struct {
	ID     uint64        `json:"id"`
	Source int           `json:"source"`
	Size   int64         `json:"size"` // bytes, -1 = unlimited
	Arrive simulate.Time `json:"arrive"`
	Done   simulate.Time `json:"done"` // -1 = not in this run
	Base   int64         `json:"base"` // bytes that were in order when the window began
}

// ChangeHeader is a path that fails or returns.
type ChangeHeader struct {
	At   simulate.Time `json:"at"`
	Path int           `json:"path"`
	Up   bool          `json:"up"`
}

// Column is an array of numbers: f64, u32, u16 or u8.
type Column struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset int    `json:"offset"` // bytes after the header
	Count  int    `json:"count"`
}

// Bits of the column "flags".
const (
	flagAgain  = 1 << iota // not sent for the first time
	flagMissed             // the sender took it for lost
)

// trace makes a Trace of what was recorded.
func (r *recorder) trace(s *scenario.Scenario, result simulate.Result) *Trace {
	t := &Trace{lanes: r.lanes, Header: Header{
		Scenario: s.Name, Scheduler: r.setup.Scheduler, From: r.from, To: min(r.to, result.End), Cut: r.early || r.to < result.End,
		MSS: r.setup.MSS, Overhead: r.setup.Overhead, Buffer: r.setup.ReceiveBuffer,
		Before: Before{r.doneOf, r.bytesOf}, Sources: []string{}, Streams: []StreamHeader{}, Changes: []ChangeHeader{}, Result: result,
	}}
	h := &t.Header
	for _, src := range r.setup.Sources {
		h.Sources = append(h.Sources, src.Name)
	}
	for _, c := range r.changes {
		if c.at <= h.To {
			h.Changes = append(h.Changes, ChangeHeader{c.at, c.path, c.up})
		}
	}
	for _, f := range r.flows {
		if f.arrive <= h.To {
			h.Streams = append(h.Streams, f.header())
		}
	}
	for i := range r.lanes {
		t.path(i, r)
	}
	for _, w := range r.waits {
		if w.to > r.from && w.from <= h.To {
			t.waits = append(t.waits, w)
		}
	}
	return t
}

func (f *flow) header() StreamHeader {
	h := StreamHeader{ID: f.id, Source: f.source, Size: f.size, Arrive: f.arrive, Done: f.done, Base: f.base}
	if f.size >= simulate.Unlimited {
		h.Size = -1
	}
	if f.done == never {
		h.Done = -1
	}
	return h
}

// path adds the packets of one path that are part of the window.
func (t *Trace) path(i int, r *recorder) {
	l, s := &r.lanes[i], &r.setup.Paths[i]
	h := PathHeader{Name: s.Name, Rate: s.Rate, Delay: s.Delay, Queue: s.Queue, Before: l.before}
	h.Packets[0] = len(t.rows)
	for k := range l.packets {
		p := &l.packets[k]
		at, known := t.stream(p.stream)
		if !known && p.stream != 0 && p.over() <= r.from {
			// its stream was over, too
			h.Before.add(p.fate)
			continue
		}
		if p.sent > t.Header.To {
			break
		}
		t.rows = append(t.rows, row{p, at})
	}
	h.Packets[1] = len(t.rows)
	if i > 0 {
		h.Windows[0] = t.Header.Paths[i-1].Windows[1]
	}
	h.Windows[1] = h.Windows[0] + len(l.windows)
	t.Header.Paths = append(t.Header.Paths, h)
}

// stream finds a stream of the window.
func (t *Trace) stream(id uint64) (index int, ok bool) {
	all := t.Header.Streams
	i := sort.Search(len(all), func(k int) bool { return all[k].ID >= id })
	if i == len(all) || all[i].ID != id {
		return -1, false
	}
	return i, true
}

// Write encodes the trace.
func (t *Trace) Write(w io.Writer) error {
	var c columns
	each := func(value func(p row) float64) []float64 { return collect(t.rows, value) }
	c.f64("sent", each(func(p row) float64 { return moment(p.sent) }))
	c.f64("left", each(func(p row) float64 { return moment(p.left) }))
	c.f64("end", each(func(p row) float64 { return moment(p.end) }))
	c.f64("known", each(func(p row) float64 { return moment(p.known) }))
	var windows []window
	for i := range t.lanes {
		windows = append(windows, t.lanes[i].windows...)
	}
	c.f64("window_at", collect(windows, func(w window) float64 { return moment(w.at) }))
	c.f64("window", collect(windows, func(w window) float64 { return float64(w.bytes) }))
	c.f64("wait_from", collect(t.waits, func(s span) float64 { return moment(s.from) }))
	c.f64("wait_to", collect(t.waits, func(s span) float64 { return moment(s.to) }))
	c.add("stream", "u32", collect(t.rows, func(p row) uint32 { return uint32(p.stream) })) // probes: all bits set
	c.add("segment", "u32", collect(t.rows, func(p row) uint32 { return uint32(p.offset / t.Header.MSS) }))
	c.add("bytes", "u16", collect(t.rows, func(p row) uint16 { return uint16(p.bytes) }))
	c.add("fate", "u8", collect(t.rows, func(p row) uint8 { return uint8(p.fate) }))
	c.add("flags", "u8", collect(t.rows, row.flags))
	if c.err != nil {
		return c.err
	}
	t.Header.Columns = c.list
	header, err := json.Marshal(t.Header)
	if err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	header = append(header, bytes.Repeat([]byte{' '}, pad(len(Magic)+4+len(header)))...)
	start := append([]byte(Magic), binary.LittleEndian.AppendUint32(nil, uint32(len(header)))...)
	for _, part := range [][]byte{start, header, c.data.Bytes()} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

func (p row) flags() uint8 {
	var f uint8
	if p.again {
		f |= flagAgain
	}
	if p.missed {
		f |= flagMissed
	}
	return f
}

func moment(t simulate.Time) float64 {
	if t == never {
		return math.Inf(1)
	}
	return float64(t / time.Nanosecond)
}

func collect[T, N any](all []T, value func(T) N) []N {
	out := make([]N, len(all))
	for i, x := range all {
		out[i] = value(x)
	}
	return out
}

// pad returns how much is missing to a multiple of 8.
func pad(n int) int { return -n & 7 }

// columns collects the arrays of a trace.
type columns struct {
	list []Column
	data bytes.Buffer
	err  error
}

func (c *columns) f64(name string, values []float64) { c.add(name, "f64", values) }

func (c *columns) add(name, kind string, values any) {
	offset := c.data.Len()
	if err := binary.Write(&c.data, binary.LittleEndian, values); err != nil && c.err == nil {
		c.err = fmt.Errorf("write column %s: %w", name, err)
	}
	width := map[string]int{"f64": 8, "u32": 4, "u16": 2, "u8": 1}[kind]
	c.list = append(c.list, Column{Name: name, Type: kind, Offset: offset, Count: (c.data.Len() - offset) / width})
	c.data.Write(make([]byte, pad(c.data.Len())))
}
