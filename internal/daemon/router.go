package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

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

// Router is the network namespace that weft works on: both doors, and the
// place where things are kept.
type Router struct {
	Place    paths.Dirs
	kernel   *kernel.Kernel
	datapath *datapath.Datapath
	stages   stages
}

// ProblemsError carries the problems that keep a configuration from being applied.
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

// Open opens the namespace that the process is in, and makes the datapath's
// maps if they are not there.
func Open(options datapath.Options) (*Router, error) {
	here, err := paths.Here()
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
	here, err := paths.Here()
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

// Close lets go of the doors; everything stays as it is.
func (r *Router) Close() error {
	r.kernel.Close()
	if r.datapath == nil {
		return nil
	}
	return r.datapath.Close()
}

// Datapath gives the door to eBPF, nil if nothing is loaded.
func (r *Router) Datapath() *datapath.Datapath { return r.datapath }

func (r *Router) targets() reconcile.Targets {
	t := reconcile.Targets{state.Kernel: r.kernel}
	if r.datapath != nil {
		t[state.Datapath] = r.datapath
	}
	return t
}

// facts reads what plans of f depend on, complete: what features ask for, and
// what they say to each other. How large its tables are is part of the programs'
// builds.
func (r *Router) facts(ctx context.Context, f *config.File) (facts state.Facts, err error) {
	if err = readHost(ctx, r.kernel, &facts); err != nil {
		return facts, err
	}
	facts.Builds = datapath.Builds(features.Sizes(f))
	q := features.Asks(f)
	answer(r.kernel, q, &facts)
	d := r.RunnerDoors(nil, nil)
	for _, x := range features.All() {
		if x.Facts == nil {
			continue
		}
		if err := x.Facts(ctx, d, q, &facts); err != nil {
			return facts, err
		}
	}
	return features.Offers(f, facts), nil
}

// readHost reads devices, addresses and routes, which any user may.
func readHost(ctx context.Context, k *kernel.Kernel, facts *state.Facts) (err error) {
	if facts.Links, err = k.Links(); err != nil {
		return err
	}
	names := map[int]string{}
	for _, l := range facts.Links {
		names[l.Index] = l.Name
	}
	if facts.Routes, err = k.HostRoutes(ctx, names); err != nil {
		return err
	}
	for i := range facts.Links {
		l := &facts.Links[i]
		l.LearntRA = l.LearntRA || l.AcceptRA && slices.ContainsFunc(facts.Routes, func(r state.RouteFact) bool {
			return r.Device == l.Name && r.Protocol == unix.RTPROT_RA
		})
	}
	return nil
}

// inspected is facts with what takes too long for each round: for what people
// read.
func (r *Router) inspected(ctx context.Context, f *config.File) (state.Facts, error) {
	facts, err := r.facts(ctx, f)
	if err != nil {
		return facts, err
	}
	d := r.RunnerDoors(nil, nil)
	for _, x := range features.All() {
		if x.Inspect != nil {
			x.Inspect(ctx, d, f, &facts)
		}
	}
	return facts, nil
}

// Links lists the devices of the namespace.
func (r *Router) Links() ([]state.LinkFact, error) { return r.kernel.Links() }

// answer adds to the facts what the kernel and the host's accounts say.
func answer(k *kernel.Kernel, q state.Questions, facts *state.Facts) {
	facts.Sysctls, facts.Strangers, facts.NoVLANs = k.Sysctls(q.Sysctls), strangers(q.Accounts), withoutVLANs(q)
}

// RunnerDoors are the ways to the machine that runners use.
func (r *Router) RunnerDoors(log *slog.Logger, replan func()) runner.Doors {
	return runner.Doors{Log: log, Kernel: r.kernel, Datapath: r.datapath, Paths: r.Place, Replan: replan}
}

// fit gives the datapath tables of the sizes that f wants. Larger or smaller
// ones are new ones: the bindings and sessions of the old are lost.
func (r *Router) fit(f *config.File) error {
	return r.datapath.Resize(features.Sizes(f))
}

// Plan gives the steps that would bring the namespace to what f wants.
func (r *Router) Plan(ctx context.Context, f *config.File) ([]state.Step, []state.Problem, error) {
	facts, err := r.inspected(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	desired, problems := r.stages.plan(f, facts)
	steps, err := r.stages.observe(ctx, desired)
	return steps, problems, err
}

// strangers gives those users and groups that the host does not have.
func strangers(all []string) []string {
	return slices.DeleteFunc(all, func(who string) bool {
		kind, name, _ := strings.Cut(who, " ")
		var err error
		if kind == "user" {
			_, err = user.Lookup(name)
		} else {
			_, err = user.LookupGroup(name)
		}
		return err == nil
	})
}

// withoutVLANs tells whether it matters that the kernel is known to tell no
// VLANs apart in bridges: who may not ask it is not told.
func withoutVLANs(q state.Questions) bool {
	if !q.VLANs {
		return false
	}
	know, err := kernel.BridgesKnowVLANs()
	return err == nil && !know
}

// CheckHost says what is wrong with f on this host, as far as who asks may know.
// It changes nothing.
func CheckHost(ctx context.Context, f *config.File, root bool) ([]state.Problem, error) {
	facts, err := hostFacts(ctx, f, root)
	if err != nil {
		return nil, err
	}
	problems := features.Host(f, facts)
	_, planned := features.Plan(f, facts)
	problems = append(problems, planned...)
	if !root {
		// the file may be for another machine, and not all of this one is known
		for i := range problems {
			problems[i].Severity = state.Warning
		}
	} else if !state.HasErrors(problems) {
		problems = append(problems, features.Root(f, facts)...)
	}
	return once(problems), nil
}

// once leaves each problem out that another one says already.
func once(problems []state.Problem) (kept []state.Problem) {
	for _, p := range problems {
		if !slices.ContainsFunc(kept, func(k state.Problem) bool { return k.Pos == p.Pos && k.What == p.What }) {
			kept = append(kept, p)
		}
	}
	state.SortProblems(kept)
	return kept
}

// hostFacts is what may be known of this host: for root inspected facts, for others
// what its devices and settings say.
func hostFacts(ctx context.Context, f *config.File, root bool) (facts state.Facts, err error) {
	if root {
		r, err := Look()
		if err != nil {
			return facts, err
		}
		defer r.Close()
		return r.inspected(ctx, f)
	}
	k, err := kernel.View()
	if err != nil {
		return facts, err
	}
	defer k.Close()
	answer(k, features.Asks(f), &facts)
	if err = readHost(ctx, k, &facts); err != nil {
		return facts, err
	}
	return features.Offers(f, facts), nil
}

// Applied is what Apply has done, the last round's facts and problems, and what
// could not be set.
type Applied struct {
	Steps    []state.Step
	Facts    state.Facts
	Problems []state.Problem
	Failures []reconcile.Failure
}

// stages are what a round does, each once, in this order.
type stages struct {
	facts   func(context.Context, *config.File) (state.Facts, error)
	plan    func(*config.File, state.Facts) (state.Desired, []state.Problem)
	observe func(context.Context, state.Desired) ([]state.Step, error)
	apply   func(context.Context, []state.Step, Tolerance) ([]reconcile.Failure, error)
}

// observe compares what is with what is desired.
func (r *Router) observe(ctx context.Context, desired state.Desired) ([]state.Step, error) {
	return r.targets().Plan(ctx, desired)
}

// errNotKept is why a step failed that succeeded and has to be done again.
var errNotKept = errors.New("the kernel does not keep what was set")

// Apply brings the namespace to what f wants. What one round makes may be a
// fact for the next (an XDP program makes its device a target of redirects),
// so it goes on until a round finds nothing to do. Steps that fail and are
// tolerated are left out of the later rounds.
func (r *Router) Apply(ctx context.Context, f *config.File, t Tolerance) (a Applied, err error) {
	if err := r.fit(f); err != nil {
		return a, err
	}
	for round := 0; ; round++ {
		if a.Facts, err = r.stages.facts(ctx, f); err != nil {
			return a, err
		}
		var desired state.Desired
		desired, a.Problems = r.stages.plan(f, a.Facts)
		if state.HasErrors(a.Problems) {
			return a, ProblemsError(a.Problems)
		}
		if refused := slices.DeleteFunc(slices.Clone(a.Problems), t.Problem); len(refused) > 0 {
			return a, ProblemsError(refused)
		}
		steps, err := r.stages.observe(ctx, desired)
		if err != nil {
			return a, err
		}
		steps = slices.DeleteFunc(steps, a.failed)
		if len(steps) == 0 {
			return a, nil
		}
		if round == rounds {
			return a, a.notKept(steps, t)
		}
		failures, err := r.stages.apply(ctx, steps, t)
		a.Failures = append(a.Failures, failures...)
		if err != nil {
			return a, err
		}
		a.Steps = append(a.Steps, slices.DeleteFunc(steps, a.failed)...)
	}
}

// rounds is how often Apply does what is left to do.
const rounds = 4

// failed says whether a step is one that could not be carried out.
func (a *Applied) failed(s state.Step) bool {
	return slices.ContainsFunc(a.Failures, func(f reconcile.Failure) bool { return f.Step.Object.Key() == s.Object.Key() })
}

// notKept is the end of Apply where steps are left after the last round.
func (a *Applied) notKept(steps []state.Step, t Tolerance) error {
	for _, s := range steps {
		if !t.Step(s) {
			return fmt.Errorf("%w: %s", errNotKept, s)
		}
		a.Failures = append(a.Failures, reconcile.Failure{Step: s, Err: errNotKept})
	}
	return nil
}

// Tolerance says what does not end an attempt to apply a configuration.
type Tolerance struct {
	Step    func(state.Step) bool    // whether the others go on if it fails
	Problem func(state.Problem) bool // whether the rest is applied with it; errors are never tolerated
}

// Strict tolerates no step that fails.
var Strict = Tolerance{
	func(state.Step) bool { return false },
	func(state.Problem) bool { return true },
}

// carryOut applies steps, and gives those that failed and are tolerated.
func (r *Router) carryOut(ctx context.Context, steps []state.Step, t Tolerance) ([]reconcile.Failure, error) {
	hurried := func() error { return nil }
	if manyWires(steps) {
		hurried = r.kernel.Hurry()
		if r.datapath != nil {
			// beside the devices, which take as long to make
			prepared := r.datapath.Prepare(programsOf(steps))
			defer func() { <-prepared }()
		}
	}
	failures, err := r.targets().ApplyAll(ctx, steps, t.Step)
	return failures, errors.Join(err, hurried())
}

// manyWires tells whether the steps make, or take away, so many pseudowires that
// it is worth to hurry the kernel.
func manyWires(steps []state.Step) bool {
	n := 0
	for _, s := range steps {
		switch s.Object.(type) {
		case state.Wire, state.Pseudowire:
			if s.Op != state.Change {
				n++
			}
		}
	}
	return n >= 32
}

// programsOf lists those that steps attach, or will once devices are there.
func programsOf(steps []state.Step) (names []string) {
	for _, s := range steps {
		if s.Op == state.Remove {
			continue
		}
		name := ""
		switch o := s.Object.(type) {
		case state.Attachment:
			name = o.Program
		case state.Wire, state.Pseudowire:
			name = "pseudowire_encap"
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// unload takes everything that is weft's out of the namespace, and puts back
// what it changed.
func (r *Router) unload(ctx context.Context) ([]state.Step, error) {
	d := r.RunnerDoors(nil, nil)
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
	if _, err := r.carryOut(ctx, steps, Strict); err != nil {
		return steps, err
	}
	return steps, r.Place.Remove()
}

// Unload takes everything of weft's out of the namespace of the process. It
// refuses while a daemon runs there.
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
