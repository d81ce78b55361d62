package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/alltables"
	"weft/internal/features"
	"weft/internal/kernel"
	"weft/internal/paths"
	"weft/internal/reconcile"
	"weft/internal/runner"
	"weft/internal/state"
)

// Router is the network namespace that weft configures: kernel, datapath, and the
// directory of its files.
type Router struct {
	Place    paths.Dirs
	kernel   *kernel.Kernel
	datapath *datapath.Datapath
	stages   stages
}

// ProblemsError are the problems because of which a configuration is not applied.
type ProblemsError []state.Problem

func (e ProblemsError) Error() string {
	switch len(e) {
	case 0:
		return "the configuration has errors"
	case 1:
		return e[0].String()
	}
	return fmt.Sprintf("%s; and %d more", e[0], len(e)-1)
}

// Open opens the namespace that the process is in, and creates the datapath's maps
// if they are missing.
func Open(options datapath.Options) (*Router, error) {
	here, err := paths.LocalAddr()
	if err != nil {
		return nil, err
	}
	if err := here.Make(); err != nil {
		return nil, err
	}
	r, err := look(here)
	if err != nil {
		return nil, err
	}
	if r.datapath, err = alltables.Open(here.Pins, options); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Look opens the namespace without changing anything.
func Look() (*Router, error) {
	here, err := paths.LocalAddr()
	if err != nil {
		return nil, err
	}
	r, err := look(here)
	if err != nil || !datapath.Exists(here.Pins) {
		return r, err
	}
	if r.datapath, err = alltables.View(here.Pins); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func look(here paths.Dirs) (*Router, error) {
	k, err := kernel.Open(here.Run)
	if err != nil {
		return nil, err
	}
	r := &Router{Place: here, kernel: k}
	r.stages = stages{r.facts, features.Plan, r.observe, r.carryOut}
	return r, nil
}

// Close closes kernel and datapath; their objects stay as they are.
func (r *Router) Close() error {
	r.kernel.Close()
	if r.datapath == nil {
		return nil
	}
	return r.datapath.Close()
}

func (r *Router) targets() reconcile.Targets {
	t := reconcile.Targets{state.Kernel: r.kernel}
	if r.datapath != nil {
		t[state.Datapath] = r.datapath
	}
	return t
}

// RunnerDoors are the runners' interfaces to the machine.
func (r *Router) RunnerDoors(log *slog.Logger, replan func()) runner.Doors {
	return runner.Doors{Log: log, Kernel: r.kernel, Datapath: r.datapath, Paths: r.Place, Replan: replan}
}

// Plan returns the steps that would bring the namespace to the state that f describes.
func (r *Router) Plan(ctx context.Context, f *config.File) ([]state.Step, []state.Problem, error) {
	facts, err := r.inspected(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	desired, problems := r.stages.plan(f, facts)
	steps, err := r.stages.observe(ctx, desired)
	return steps, problems, err
}

// unload removes all of weft's objects from the namespace, and restores the settings
// that it changed.
func (r *Router) unload(ctx context.Context) ([]state.Step, error) {
	d := r.Doors()
	for _, x := range features.All() {
		if x.Unload == nil {
			continue
		}
		if err := x.Unload(d); err != nil {
			return nil, err
		}
	}
	steps, err := r.observe(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := r.carryOut(ctx, steps, nil, Strict); err != nil {
		return steps, err
	}
	return steps, r.Place.Remove()
}

// Unload removes all of weft's objects from the namespace of the process. It refuses
// while a daemon runs there.
func Unload(ctx context.Context) ([]state.Step, error) {
	r, err := Look()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := os.Stat(r.Place.Run); errors.Is(err, fs.ErrNotExist) {
		return nil, r.Place.Remove()
	}
	held, err := lock(r.Place.Lock())
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return r.unload(ctx)
}
