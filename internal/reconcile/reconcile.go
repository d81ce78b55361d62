// Package reconcile brings the actual state to the desired state, in ordered steps:
// missing objects are added and differing ones changed, in the order of Desired;
// only then are objects that are not desired any more removed, by their kind's rank.
// A second run does nothing; a run after one that died midway finishes it.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"weft/internal/fault"
	"weft/internal/state"
)

// Target is a subsystem that holds objects, for instance the kernel.
type Target interface {
	// Observe lists the existing objects of want and those that are weft's.
	Observe(ctx context.Context, want state.Desired) ([]state.Object, error)
	Apply(ctx context.Context, step state.Step) error
}

// Finisher is a Target that has work left after a series of steps.
type Finisher interface {
	Finish(ctx context.Context) error
}

// Batcher is a Target that applies several steps together faster than one by one.
type Batcher interface {
	// ApplySome applies as many steps from the first on as it chooses; the rest,
	// perhaps all, are applied one by one.
	ApplySome(ctx context.Context, steps []state.Step) (done int, err error)
}

// Steps compares the two lists, whose order does not matter; the steps are in the
// order of desired.
func Steps(desired state.Desired, actual []state.Object) []state.Step {
	is := map[string]state.Object{}
	for _, o := range actual {
		is[o.Key()] = o
	}
	kinds := state.KindsByType()
	var steps []state.Step
	wanted := map[string]bool{}
	for _, o := range desired {
		wanted[o.Key()] = true
		was, exists := is[o.Key()]
		switch {
		case !exists:
			steps = append(steps, state.Step{Op: state.Add, Object: o})
		case was != o:
			steps = append(steps, state.Step{Op: state.Change, Object: o, Was: was})
		}
	}
	var gone []state.Object
	for _, o := range actual {
		if !wanted[o.Key()] {
			gone = append(gone, o)
		}
	}
	slices.SortStableFunc(gone, func(a, b state.Object) int { return cmp.Compare(removal(kinds, a), removal(kinds, b)) })
	for _, o := range gone {
		steps = append(steps, state.Step{Op: state.Remove, Object: o})
	}
	return steps
}

// removal returns the rank of an object for removal; an unlisted kind is removed
// last.
func removal(kinds map[reflect.Type]state.Kind, o state.Object) int {
	if k, ok := kinds[reflect.TypeOf(o)]; ok {
		return k.Remove
	}
	return math.MaxInt
}

// Targets are the targets by domain.
type Targets map[state.Domain]Target

// Plan observes the actual state and returns the steps to the desired one.
func (t Targets) Plan(ctx context.Context, desired state.Desired) ([]state.Step, error) {
	var actual []state.Object
	for _, target := range t {
		found, err := target.Observe(ctx, desired)
		if err != nil {
			return nil, err
		}
		actual = append(actual, found...)
	}
	return Steps(desired, actual), nil
}

// Failure is a failed step, with its error.
type Failure struct {
	Step state.Step
	Err  error
}

func (f Failure) Error() string { return fmt.Sprintf("%s: %v", f.Step, f.Err) }

// Apply applies the steps in order and stops at the first error, because later
// objects may depend on the missing one. Nothing is rolled back: forwarding that
// works continues, and the next attempt continues from there.
func (t Targets) Apply(ctx context.Context, steps []state.Step) error {
	_, err := t.ApplyAll(ctx, steps, nil, func(state.Step) bool { return false })
	return err
}

// ErrLeftOut is the failure of a step that was not tried, because it depends on one
// that failed.
var ErrLeftOut = errors.New("it depends on a step that failed")

// ApplyAll is Apply that continues after a failed step for which tolerated returns
// true. Steps that depend on a device which could not be created are skipped then:
// they would use a device of that name that is not weft's. They count as failures
// too (ErrLeftOut). before are failures of earlier rounds, whose steps are not among
// these any more.
func (t Targets) ApplyAll(ctx context.Context, steps []state.Step, before []Failure, tolerated func(state.Step) bool) (failures []Failure, err error) {
	var missing leaning
	for _, f := range before {
		missing.add(f.Step)
	}
	for len(steps) > 0 {
		target, ok := t[steps[0].Object.Domain()]
		if !ok {
			return failures, fmt.Errorf("%s: the datapath is not open", steps[0])
		}
		if missing.leansOn(steps[0]) {
			failures = append(failures, Failure{steps[0], ErrLeftOut})
			missing.add(steps[0])
			steps = steps[1:]
			continue
		}
		done, err := 0, error(nil)
		if b, is := target.(Batcher); is && len(missing.devices) == 0 {
			done, err = b.ApplySome(ctx, steps)
		}
		if done == 0 && err == nil {
			done, err = 1, target.Apply(ctx, steps[0])
		}
		if err != nil && done > 1 && ctx.Err() == nil && tolerated(steps[0]) {
			done, err = 1, target.Apply(ctx, steps[0]) // find the one of the batch that fails
		}
		if err != nil {
			if ctx.Err() != nil || !tolerated(steps[0]) {
				return failures, errors.Join(err, t.finish(ctx))
			}
			failures = append(failures, Failure{steps[0], err})
			missing.add(steps[0])
		}
		fault.At(fault.StepApplied, steps[0].String())
		steps = steps[max(done, 1):]
	}
	return failures, t.finish(ctx)
}

// leaning collects the failures on which later steps may depend.
type leaning struct {
	devices   []string // could not be made
	unguarded []string // something on them could not be set
}

func (l *leaning) add(s state.Step) {
	if s.Op == state.Remove {
		return
	}
	made, _ := state.DevicesMade(s.Object)
	l.devices = append(l.devices, made...)
	if g, is := s.Object.(state.BridgeGuard); is {
		l.unguarded = append(l.unguarded, g.Device)
	}
	if a, is := s.Object.(state.Attachment); is {
		l.unguarded = append(l.unguarded, a.Device)
	}
}

// leansOn reports whether a step would use a missing device, or let frames into a
// bridge past a missing guard.
func (l *leaning) leansOn(s state.Step) bool {
	if s.Op == state.Remove {
		return false
	}
	if p, is := s.Object.(state.BridgePort); is && slices.Contains(l.unguarded, p.Device) {
		return true
	}
	return slices.ContainsFunc(l.devices, func(d string) bool { return state.Names(s.Object, d) })
}

func (t Targets) finish(ctx context.Context) (err error) {
	for _, target := range t {
		if f, ok := target.(Finisher); ok {
			err = errors.Join(err, f.Finish(ctx))
		}
	}
	fault.At(fault.SeriesFinished, "")
	return err
}
