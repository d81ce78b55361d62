// Package plan converts what the features require into the desired state. It is
// pure, and knows no feature.
package plan

import (
	"reflect"
	"slices"

	"weft/internal/state"
)

// Audit finds conflicts between the parts of all features.
type Audit func([]state.Part, state.Facts) []state.Problem

// Desire joins the parts of all features, and a part for what they need of
// interfaces.
func Desire(parts []state.Part, facts state.Facts, audits ...Audit) (state.Desired, []state.Problem) {
	p, own := interfaces(parts, facts)
	parts = append(slices.Clone(parts), own)
	var desired state.Desired
	var problems []state.Problem
	for _, part := range parts {
		desired, problems = append(desired, part.Objects...), append(problems, part.Problems...)
	}
	problems = append(problems, overlaps(parts, facts)...)
	for _, audit := range audits {
		problems = append(problems, audit(parts, facts)...)
	}
	state.SortProblems(problems)
	return devicesFirst(unique(p.hooked(desired))), problems
}

// hooked notes at which hook objects work that the first program of an interface reads.
func (p *planner) hooked(desired state.Desired) state.Desired {
	for i, o := range desired {
		if h, ok := o.(state.Hooked); ok {
			desired[i] = h.AtHook(p.inXDP(h.On()))
		}
	}
	return desired
}

// devicesFirst moves the creation of devices before all else: one feature may use
// the device of another.
func devicesFirst(desired state.Desired) state.Desired {
	kinds := state.KindsByType()
	slices.SortStableFunc(desired, func(a, b state.Object) int {
		return kinds[reflect.TypeOf(a)].Make - kinds[reflect.TypeOf(b)].Make
	})
	return desired
}

// unique keeps the first of objects with one key: two features may want the
// same.
func unique(desired state.Desired) state.Desired {
	seen := map[string]bool{}
	var kept state.Desired
	for _, o := range desired {
		if !seen[o.Key()] {
			seen[o.Key()] = true
			kept = append(kept, o)
		}
	}
	return kept
}
