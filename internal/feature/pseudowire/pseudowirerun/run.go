package pseudowirerun

import (
	"context"

	"weft/internal/datapath/pseudowiretable"
	"weft/internal/feature/pseudowire"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// Runner follows the paths to the other ends of pseudowires, and takes what
// comes in fragments.
type Runner struct{ loop *task.Loop[*parts] }

// parts is what the runner's loop owns.
type parts struct {
	paths      *pathWatcher
	reassembly *reassembly
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{task.StartLoop(ctx, "pseudowire", &parts{
		&pathWatcher{log: d.Log, kernel: d.Kernel, datapath: d.Datapath, replan: d.Replan, wanted: make(chan pathsWanted, 1)},
		&reassembly{log: d.Log, datapath: d.Datapath},
	}, nil)}
}

// Apply looks after the pseudowires of the file.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Ask(ctx, func(p *parts) {
		p.paths.apply(ctx, pseudowire.Pairs(round.File), round.Facts)
		p.reassembly.apply(ctx, pseudowire.Ends(round.File))
	})
}

// Status reports whether paths are followed and fragments taken.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(p *parts) (list []state.Health) {
		if p.paths.task != nil {
			list = append(list, state.HealthOf("pseudowire", "", p.paths.task.Fault(), "packets take the last known path; weft tries again"))
		}
		for name, t := range p.reassembly.set.All() {
			if err := t.fault(); err != nil {
				list = append(list, state.HealthOf("pseudowire", name, err, "packets that arrive in fragments are lost; weft tries again every second"))
			}
		}
		return list
	})
}

// Close stops the tasks.
func (r *Runner) Close() error {
	p := task.Close(r.loop)
	p.paths.stop()
	p.reassembly.set.Close()
	return nil
}

// Facts asks the kernel for the paths to the other ends, and the programs for
// what routers on the way have reported.
func Facts(ctx context.Context, d runner.Doors, q state.Questions, facts *state.Facts) error {
	paths, _, err := pathsOf(ctx, d.Kernel, q.Pairs)
	facts.Paths = paths
	if err != nil || d.Datapath == nil || len(paths) == 0 {
		return err
	}
	reported, err := pseudowiretable.Of(d.Datapath).Paths()
	for endpoints, way := range paths {
		way.PathMTU = reported[endpoints].PathMTU
		paths[endpoints] = way
	}
	return err
}
