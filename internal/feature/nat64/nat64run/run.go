package nat64run

import (
	"context"
	"errors"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/nat64"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// Runner runs the slow paths of translators, finds the prefixes of CLATs, and
// logs allocations.
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*parts]
}

// parts is what the runner's loop owns.
type parts struct {
	slow        *slowPaths
	discovery   *discovery
	allocations *allocations
	fault       error // of the last round
	used        bool
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{d, task.StartLoop(ctx, "nat64", &parts{
		slow: newSlowPaths(d.Log), discovery: newDiscovery(d.Log, d.Paths.Run, d.Replan), allocations: &allocations{log: d.Log},
	}, nil)}
}

// Prepare stops the slow paths whose devices the next file has not: they are
// about to be taken away.
func (r *Runner) Prepare(next *config.File) {
	_ = r.loop.Ask(context.Background(), func(p *parts) {
		devices := map[string]string{}
		for _, name := range next.Names("nat64") {
			devices[name] = nat64.From(next, name).Device
		}
		for name, s := range p.slow.set.All() {
			if devices[name] != s.slow.Device {
				p.slow.set.Stop(name)
			}
		}
	})
}

// Apply starts, changes and stops what the translators of the file need.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Do(ctx, func(p *parts) error {
		p.used = round.File.Given("nat64")
		p.discovery.apply(ctx, round.File, round.Facts)
		p.fault = errors.Join(
			p.slow.apply(ctx, r.doors.Datapath, round.File, round.Facts),
			p.allocations.apply(ctx, r.doors.Datapath, round.File),
		)
		return p.fault
	})
}

// Status reports whether translators have their slow paths and logs.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(p *parts) (list []state.Health) {
		for name, s := range p.slow.set.All() {
			list = append(list, s.health(name))
		}
		if p.used {
			fault := p.fault
			if a := p.allocations.running; a != nil && fault == nil {
				fault = a.task.Fault()
			}
			list = append(list, state.HealthOf("nat64", "", fault, "see the log of weft run; a reload tries again"))
		}
		return list
	})
}

// Close stops all; allocations are logged up to now.
func (r *Runner) Close() error {
	p := task.Close(r.loop)
	p.allocations.end()
	p.discovery.set.Close()
	p.slow.set.Close()
	return nil
}

// SlowCounts returns what the slow paths made of packets, by translator.
func (r *Runner) SlowCounts() map[string]map[state.Outcome]uint64 {
	return task.Get(context.Background(), r.loop, func(p *parts) map[string]map[state.Outcome]uint64 { return p.slow.counts() })
}

// Who returns the holders of a port.
func (r *Runner) Who(q nat64.WhoQuery) (rows []nat64.HolderRow, err error) {
	ctx := context.Background()
	failed := r.loop.Ask(ctx, func(p *parts) { rows, err = p.allocations.who(q) })
	return rows, errors.Join(failed, err)
}

// Collectors returns how the collectors of allocations are doing.
func (r *Runner) Collectors() []nat64.Collector {
	return task.Get(context.Background(), r.loop, func(p *parts) []nat64.Collector { return p.allocations.collectors() })
}

// Facts returns the numbers of translators, and the prefixes that CLATs have
// found here.
func Facts(_ context.Context, d runner.Doors, _ state.Questions, facts *state.Facts) (err error) {
	facts.Translators = map[string]int{}
	if facts.PLAT, err = readPLAT(d.Paths.Run); err != nil || d.Datapath == nil {
		return err
	}
	translators, err := nat64table.Of(d.Datapath).Translators()
	if errors.Is(err, datapath.ErrOtherVersion) {
		return nil // what is loaded is about to be replaced
	}
	for _, t := range translators {
		facts.Translators[t.Name] = t.ID
	}
	return err
}
