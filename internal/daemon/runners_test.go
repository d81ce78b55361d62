package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"weft/internal/config"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// fake is a runner whose methods are what a test wants.
type fake struct {
	apply  func() error
	status func(context.Context) []state.Health
	closed *[]string
	name   string
}

func (f fake) Apply(context.Context, runner.Round) error { return f.apply() }
func (f fake) Status(ctx context.Context) []state.Health { return f.status(ctx) }
func (f fake) Close() error                              { *f.closed = append(*f.closed, f.name); return nil }

func working(name string) func(context.Context) []state.Health {
	return func(context.Context) []state.Health { return []state.Health{state.HealthOf(name, "", nil, "")} }
}

// A runner that fails, panics or does not answer keeps no other from its work; it
// is degraded with the reason, and a round is tried again.
func TestARunnerThatFailsIsDegradedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed []string
		applied := 0
		fault := errors.New("no socket")
		var r runners
		for _, f := range []fake{
			{name: "fails", apply: func() error { return fault }, status: working("fails")},
			{name: "panics", apply: func() error {
				if fault != nil {
					panic("nil map")
				}
				return nil
			}, status: working("panics")},
			{name: "silent", apply: func() error { return nil }, status: func(ctx context.Context) []state.Health { <-ctx.Done(); return nil }},
			{name: "works", apply: func() error { applied++; return nil }, status: working("works")},
		} {
			f.closed = &closed
			r.list = append(r.list, running{f.name, f, &task.OnChange{}, new(atomic.Pointer[error])})
		}
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		r.apply(t.Context(), logger, runner.Round{File: &config.File{}})
		if applied != 1 || r.retry == nil {
			t.Errorf("the last runner was applied %d times; a retry is due: %v", applied, r.retry != nil)
		}
		want := map[string]string{"fails": "no socket", "panics": "panic: nil map", "silent": "no answer within 1s", "works": ""}
		check := func() {
			t.Helper()
			got := map[string]string{}
			for _, h := range r.health(t.Context()) {
				got[h.Feature] += h.Because
				if h.Because != "" && (h.Condition != state.Degraded || h.Remedy == "") {
					t.Errorf("%+v", h)
				}
			}
			for name, because := range want {
				if got[name] != because {
					t.Errorf("%s: %q, want %q", name, got[name], because)
				}
			}
		}
		check()
		<-r.retry
		fault = nil
		r.apply(t.Context(), logger, runner.Round{File: &config.File{}})
		if r.retry != nil {
			t.Error("a retry is due though nothing failed")
		}
		want["fails"], want["panics"] = "", ""
		check()
		r.close(logger)
		if !slices.Equal(closed, []string{"works", "silent", "panics", "fails"}) {
			t.Errorf("closed in the order %v", closed)
		}
	})
}
