package simulate

import (
	"context"
	"fmt"

	"weft/schedule"
)

// The events that can be due on a path. At most one of each kind is due at any
// time: what comes later waits in a queue of its own, because packets of a path
// stay in order. So the next event is the smallest of a few numbers; of equal
// ones the first in this order, and the smaller path, comes first.
const (
	dueChange  = iota // the path fails or returns
	dueServed         // a packet has left the queue
	dueArrival        // a packet arrives at the receiver
	dueDelayed        // the receiver waited long enough with its acknowledgement
	dueAck            // an acknowledgement arrives at the sender
	duePace           // pacing allows the next packet
	dueTimer          // loss detection (RFC 9002)
	dueKinds
)

// Simulation is one run. It is made by New, and used once.
type Simulation struct {
	setup    Setup
	record   Recorder // nil: no recorder
	now      Time
	due      []Time // by path*dueKinds + kind; then the kernel's repeats, and the next stream
	arrivals arrivals
	paths    []path
	streams  streams
	receiver receiver
	sender   sender
	kernel   kernel
	events   uint64
	measure  measure
}

// New prepares a run. The Setup is not changed, and must not be while it runs.
func New(s Setup, record Recorder) (*Simulation, error) {
	scheduler, err := schedule.New(s.Scheduler)
	if err != nil {
		return nil, err
	}
	controls, err := newControls(s.Congestion, len(s.Paths), s.MSS, s.InitialWindow, s.Linux)
	if err != nil {
		return nil, err
	}
	if len(s.Paths) == 0 || len(s.Paths) > schedule.MaxPaths {
		return nil, fmt.Errorf("simulate %d paths: 1 to %d are possible", len(s.Paths), schedule.MaxPaths)
	}
	m := &Simulation{setup: s, record: record}
	m.due = make([]Time, len(s.Paths)*dueKinds+2)
	for i := range m.due {
		m.due[i] = never
	}
	m.sender.scheduler = scheduler
	if r, ok := scheduler.(schedule.Repeater); ok {
		m.sender.repeats = r.Repeats()
	}
	m.sender.view = schedule.View{MSS: s.MSS, Window: s.ReceiveBuffer, Paths: make([]schedule.Path, len(s.Paths))}
	m.paths = make([]path, len(s.Paths))
	for i := range m.paths {
		m.initPath(i, controls[i])
	}
	m.initKernel()
	m.arrivals.init(&m.setup)
	m.dueStream()
	m.measure.init(&m.setup)
	return m, nil
}

// Run carries the simulation out, until its end or that of the context, and
// checks that nothing appeared from nowhere or vanished.
func (m *Simulation) Run(ctx context.Context) (Result, error) {
	for m.step() {
		if m.events++; m.events&(1<<16-1) == 0 && ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
	}
	if err := m.conserved(); err != nil {
		return Result{}, err
	}
	return m.result(), nil
}

// step carries out the next event; it says false at the end of the run.
func (m *Simulation) step() bool {
	slot, at := 0, m.due[0]
	for i, t := range m.due {
		if t < at {
			slot, at = i, t
		}
	}
	if m.setup.End > 0 && at > m.setup.End {
		m.advance(m.setup.End)
		return false
	}
	if at == never || m.setup.End == 0 && m.finished() {
		return false
	}
	m.advance(at)
	if slot == len(m.due)-1 {
		m.streamArrives()
		return true
	}
	m.due[slot] = never
	if slot == m.reinjectSlot() {
		m.reinject()
		return true
	}
	p := &m.paths[slot/dueKinds]
	switch slot % dueKinds {
	case dueChange:
		m.change(p)
	case dueServed:
		m.served(p)
	case dueArrival:
		m.packetArrives(p)
	case dueDelayed:
		m.acknowledge(p)
	case dueAck:
		m.ackArrives(p)
	case duePace:
		m.sender.view.Paths[p.index].Held = false
		m.send()
	case dueTimer:
		m.timer(p)
	}
	return true
}

func (m *Simulation) finished() bool {
	return m.streams.open == 0 && m.arrivals.empty()
}

func (m *Simulation) advance(to Time) {
	m.measure.advance(to-m.now, m.receiver.buffered)
	m.now = to
	m.sender.view.Now = to
}

func (m *Simulation) set(p *path, kind int, at Time) { m.due[p.index*dueKinds+kind] = at }

func (m *Simulation) get(p *path, kind int) Time { return m.due[p.index*dueKinds+kind] }

func (m *Simulation) notify(e Event) {
	if m.record != nil {
		e.At = m.now
		m.record(e)
	}
}
