// Package dscprun is the half of feature dscp that touches the system: it measures how many
// packets a second are dropped.
package dscprun

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weft/internal/datapath/dscptable"
	"weft/internal/feature/dscp"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// look is how often the table is read.
const look = time.Second

// Runner reads the table once a second.
type Runner struct{ loop *task.Loop[*meter] }

// meter is what the runner's loop owns.
type meter struct {
	read  func() ([]dscptable.Drops, error)
	wants bool // a section asks for it
	at    time.Time
	rows  []dscp.Row
	fault error
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	read := func() ([]dscptable.Drops, error) { return dscptable.Of(d.Datapath).Drops() }
	return &Runner{task.StartLoop(ctx, "dscp", &meter{read: read}, func(m *meter) time.Duration {
		if m.wants {
			m.look(time.Now())
		}
		return look
	})}
}

// look reads the table, and compares it with what it was.
func (m *meter) look(now time.Time) {
	var drops []dscptable.Drops
	if drops, m.fault = m.read(); m.fault != nil {
		return
	}
	was := map[dscp.Row]uint64{} // by device and DSCP
	for _, r := range m.rows {
		was[dscp.Row{Device: r.Device, DSCP: r.DSCP}] = r.Packets
	}
	passed := now.Sub(m.at).Seconds()
	m.at, m.rows = now, nil
	for _, d := range drops {
		r := dscp.Row{Device: d.Device, DSCP: d.DSCP}
		if before, known := was[r]; known && passed > 0 {
			r.PerSecond = float64(d.Packets-before) / passed
		}
		r.Packets = d.Packets
		m.rows = append(m.rows, r)
	}
	slices.SortFunc(m.rows, func(a, b dscp.Row) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.DSCP, b.DSCP))
	})
}

// Apply notes whether the file has a section, and reads the table if nothing has yet.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Ask(ctx, func(m *meter) {
		if m.wants = len(round.File.Names("dscp")) > 0; m.wants && m.at.IsZero() {
			m.look(time.Now())
		}
	})
}

// Status is the health of the feature: nothing while no section asks for it.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(m *meter) []state.Health {
		if !m.wants {
			return nil
		}
		return []state.Health{state.HealthOf("dscp", "", m.fault, "packets are dropped all the same; weft reads the table again every second")}
	})
}

// Drops returns the rows of weft show dscp.
func (r *Runner) Drops(ctx context.Context) (rows []dscp.Row, err error) {
	asked := r.loop.Ask(ctx, func(m *meter) { rows, err = slices.Clone(m.rows), m.fault })
	return rows, cmp.Or(asked, err)
}

// Close stops the loop. The programs go on dropping.
func (r *Runner) Close() error {
	task.Close(r.loop)
	return nil
}
