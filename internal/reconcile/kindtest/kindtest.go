// Package kindtest tests the kinds of objects of package state against a target.
package kindtest

import (
	"reflect"
	"slices"
	"testing"

	"weft/internal/reconcile"
	"weft/internal/state"
)

// Target is a reconcile.Target.
type Target = reconcile.Target

// Joined fails unless a domain's kinds and its target's, by their types, are the
// same, each once.
func Joined(t *testing.T, domain state.Domain, door []reflect.Type) {
	t.Helper()
	for _, k := range state.Kinds() {
		of := reflect.TypeOf(k.Example)
		n := 0
		for _, d := range door {
			if d == of {
				n++
			}
		}
		if want := k.Domain == domain; want != (n == 1) || n > 1 {
			t.Errorf("the door has %v %d times", of, n)
		}
	}
	for _, d := range door {
		if _, ok := state.KindsByType()[d]; !ok {
			t.Errorf("state.Kinds does not list %v", d)
		}
	}
}

// Try creates the examples of a domain, finds them as they were created, changes
// them and removes them. The target is opened for each round, as after a restart.
// Kinds in without are skipped: the kernel lacks them.
func Try(t *testing.T, domain state.Domain, without []string, open func(use func(Target))) {
	t.Helper()
	var want, changed state.Desired
	changes := 0
	for _, k := range state.Kinds() {
		if k.Domain != domain || slices.Contains(without, k.Name) {
			continue
		}
		want, changed = append(want, k.Example), append(changed, k.Changed)
		if k.Changed != k.Example {
			changes++
		}
	}
	for _, round := range []struct {
		what string
		want state.Desired
		op   state.Op
		n    int
	}{
		{"made", want, state.Add, len(want)}, {"made again", want, "", 0},
		{"changed", changed, state.Change, changes}, {"changed again", changed, "", 0},
		{"taken away", nil, state.Remove, len(want)}, {"taken away again", nil, "", 0},
	} {
		open(func(target Target) {
			targets := reconcile.Targets{domain: target}
			steps, err := targets.Plan(t.Context(), round.want)
			if err == nil {
				err = targets.Apply(t.Context(), steps)
			}
			if err != nil {
				t.Errorf("%s: %v", round.what, err)
			}
			if len(steps) != round.n {
				t.Errorf("%s: it took %d steps, want %d", round.what, len(steps), round.n)
			}
			for _, s := range steps {
				if _, is := s.Object.(state.Sysctl); is && s.Op == state.Change {
					continue // there is always one
				}
				if s.Op != round.op || len(steps) != round.n {
					t.Errorf("%s: it took %v", round.what, s)
				}
			}
		})
	}
}
