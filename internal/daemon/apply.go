package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/kernel"
	"weft/internal/reconcile"
	"weft/internal/state"
)

// fit resizes the datapath's tables as f requires. A resized table is new: the
// bindings and sessions of the old one are lost.
func (r *Router) fit(f *config.File) error {
	return r.datapath.Resize(features.Sizes(f))
}

// Applied is the result of Apply: the steps done, the last round's facts and
// problems, and failed steps.
type Applied struct {
	Steps    []state.Step
	Facts    state.Facts
	Problems []state.Problem
	Failures []reconcile.Failure
}

// stages are the steps of a round, each done once, in this order.
type stages struct {
	facts   func(context.Context, *config.File) (state.Facts, error)
	plan    func(*config.File, state.Facts) (state.Desired, []state.Problem)
	observe func(context.Context, state.Desired) ([]state.Step, error)
	apply   func(ctx context.Context, steps []state.Step, before []reconcile.Failure, t Tolerance) ([]reconcile.Failure, error)
}

// observe compares the actual with the desired state.
func (r *Router) observe(ctx context.Context, desired state.Desired) ([]state.Step, error) {
	return r.targets().Plan(ctx, desired)
}

// errNotKept is the failure of a step that succeeded and yet has to be done again.
var errNotKept = errors.New("the kernel does not keep what was set")

// Apply brings the namespace to the state that f describes.
func (r *Router) Apply(ctx context.Context, f *config.File, t Tolerance) (Applied, error) {
	if err := r.fit(f); err != nil {
		return Applied{}, err
	}
	return r.stages.settle(ctx, f, t)
}

// settle repeats rounds until one finds nothing to do: an object that one round creates may be
// a fact for the next (an XDP program makes its device a target of redirects). Tolerated
// failed steps, and those that depend on them, are omitted in later rounds.
func (s stages) settle(ctx context.Context, f *config.File, t Tolerance) (a Applied, err error) {
	for round := 0; ; round++ {
		if a.Facts, err = s.facts(ctx, f); err != nil {
			return a, err
		}
		var desired state.Desired
		desired, a.Problems = s.plan(f, a.Facts)
		if state.HasErrors(a.Problems) {
			return a, ProblemsError(a.Problems)
		}
		if refused := slices.DeleteFunc(slices.Clone(a.Problems), t.Problem); len(refused) > 0 {
			return a, ProblemsError(refused)
		}
		steps, err := s.observe(ctx, desired)
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
		failures, err := s.apply(ctx, steps, a.Failures, t)
		a.Failures = append(a.Failures, failures...)
		if err != nil {
			return a, err
		}
		a.Steps = append(a.Steps, slices.DeleteFunc(steps, a.failed)...)
	}
}

// rounds is the largest number of rounds in Apply.
const rounds = 4

// failed reports whether a step is among the failed ones.
func (a *Applied) failed(s state.Step) bool {
	return slices.ContainsFunc(a.Failures, func(f reconcile.Failure) bool { return f.Step.Object.Key() == s.Object.Key() })
}

// notKept ends Apply if steps are left after the last round.
func (a *Applied) notKept(steps []state.Step, t Tolerance) error {
	for _, s := range steps {
		if !t.Step(s) {
			return fmt.Errorf("%w: %s", errNotKept, s)
		}
		a.Failures = append(a.Failures, reconcile.Failure{Step: s, Err: errNotKept})
	}
	return nil
}

// Tolerance selects the failures that do not end Apply.
type Tolerance struct {
	Step    func(state.Step) bool    // whether the others go on if it fails
	Problem func(state.Problem) bool // whether the rest is applied with it; errors are never tolerated
}

// Strict tolerates no step that fails.
var Strict = Tolerance{
	func(state.Step) bool { return false },
	func(state.Problem) bool { return true },
}

// carryOut applies steps, and returns the tolerated failures. before are those of
// earlier rounds.
func (r *Router) carryOut(ctx context.Context, steps []state.Step, before []reconcile.Failure, t Tolerance) ([]reconcile.Failure, error) {
	hurried := func() error { return nil }
	if kernel.WorthHurry(steps) {
		hurried = r.kernel.Hurry()
		if r.datapath != nil {
			// concurrently with the creation of devices, which takes as long
			prepared := r.datapath.Prepare(steps)
			defer func() { <-prepared }()
		}
	}
	failures, err := r.targets().ApplyAll(ctx, steps, before, t.Step)
	return failures, errors.Join(err, hurried())
}
