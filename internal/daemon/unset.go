package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"weft/internal/reconcile"
	"weft/internal/state"
)

// unset is the part of the configuration that weft could not apply: failed steps,
// and sections that the host cannot fulfil. All else is applied.
type unset struct {
	steps    []reconcile.Failure
	problems []string // those with a condition: path and text, wherever they stand in the file
	health   atomic.Pointer[[]state.Health]
	pause    time.Duration    // before the next attempt, the longer the more have failed
	retry    <-chan time.Time // it is due; nil: nothing failed
}

// The pause before failed parts are tried again. A change of the kernel's links,
// addresses or routes starts an attempt at once.
const (
	unsetFirst = 2 * time.Second
	unsetMost  = time.Minute
	unsetShown = 20 // lines of weft show health
)

// tolerant continues after each failed step: there is no earlier configuration to return to.
var tolerant = Tolerance{
	func(state.Step) bool { return true },
	func(state.Problem) bool { return true },
}

// tolerance is that of a reload: steps that failed before it do not refuse it, but
// each new failure does. A part that works only partly is no failure.
func (u *unset) tolerance() Tolerance {
	return Tolerance{Step: u.known, Problem: func(p state.Problem) bool {
		return p.Condition == "" || p.Condition == state.Degraded || slices.Contains(u.problems, p.Path+p.What)
	}}
}

// known reports whether a step failed in the last attempt too.
func (u *unset) known(s state.Step) bool {
	return slices.ContainsFunc(u.steps, func(f reconcile.Failure) bool { return f.Step.Object.Key() == s.Object.Key() })
}

// update stores the failures of the last attempt, and logs the new ones.
func (u *unset) update(log *slog.Logger, a Applied) {
	roots := slices.DeleteFunc(slices.Clone(a.Failures), func(f reconcile.Failure) bool { return errors.Is(f.Err, reconcile.ErrLeftOut) })
	for _, f := range roots {
		if !u.known(f.Step) {
			log.Error("cannot apply a step, weft tries again", "step", f.Step.String(), "error", f.Err)
		}
	}
	was := u.steps
	u.steps = a.Failures
	for _, f := range was {
		if !u.known(f.Step) {
			log.Info("set now", "step", f.Step.String())
		}
	}
	var list []state.Health
	u.problems = nil
	for _, p := range a.Problems {
		if p.Condition != "" {
			u.problems = append(u.problems, p.Path+p.What)
			list = append(list, p.Health())
		}
	}
	for i, f := range roots {
		h := state.HealthOf("host", "", f, "weft tries again by itself; its log has the details")
		if i == unsetShown {
			h.Because = fmt.Sprintf("%d more steps failed", len(roots)-i)
		}
		list = append(list, h)
		if i == unsetShown {
			break
		}
	}
	u.health.Store(&list)
	u.again(len(a.Failures) > 0)
}

// again sets when the next attempt is due.
func (u *unset) again(due bool) {
	u.retry = nil
	if !due {
		u.pause = 0
		return
	}
	u.pause = min(max(2*u.pause, unsetFirst), unsetMost)
	u.retry = time.After(u.pause)
}

// refused records that the configuration could not be applied at all.
func (u *unset) refused(err error) {
	var list []state.Health
	var problems ProblemsError
	if errors.As(err, &problems) {
		for _, p := range problems {
			if p.Severity == state.Error || p.Condition != "" {
				h := p.Health()
				h.Condition = state.NotWorking
				list = append(list, h)
			}
		}
	}
	if len(list) == 0 {
		list = []state.Health{{Feature: "host", Condition: state.NotWorking, Because: err.Error(), Remedy: "weft check reports the file's problems; the earlier settings stay"}}
	}
	u.health.Store(&list)
	u.again(true)
}

// lines are those of weft show health.
func (u *unset) lines() []state.Health {
	if list := u.health.Load(); list != nil {
		return *list
	}
	return nil
}
