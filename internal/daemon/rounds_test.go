package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/features"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/reconcile"
	"weft/internal/state"
)

// calls counts what rounds do.
type calls struct{ facts, plans, observes, applies int }

// count has a router count its stages.
func count(r *Router) *calls {
	n, s := &calls{}, r.stages
	r.stages = stages{
		facts: func(ctx context.Context, f *config.File) (state.Facts, error) {
			n.facts++
			return s.facts(ctx, f)
		},
		plan: func(f *config.File, facts state.Facts) (state.Desired, []state.Problem) {
			n.plans++
			return s.plan(f, facts)
		},
		observe: func(ctx context.Context, d state.Desired) ([]state.Step, error) {
			n.observes++
			return s.observe(ctx, d)
		},
		apply: func(ctx context.Context, steps []state.Step, before []reconcile.Failure, t Tolerance) ([]reconcile.Failure, error) {
			n.applies++
			return s.apply(ctx, steps, before, t)
		},
	}
	return n
}

// In a round facts are asked for once, planned with once, and compared once with
// what is there. A start takes three rounds at most, a change as many, and a start
// that finds everything in place one. Every example is tried on a host with the
// devices that it names; what fits asks before the first round is counted apart.
func TestARoundPlansOnceAndAStartTakesThreeAtMost(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../examples/*.toml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples: %v", len(examples), err)
	}
	for _, name := range examples {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			space := spacetest.New(t, "rounds")
			for _, device := range []string{"eth0", "eth1", "eth2"} {
				spacetest.Batch(t, space, "link add "+device+" type veth peer name far"+device, "link set "+device+" up", "link set far"+device+" up")
			}
			// smaller tables: as many rounds, in less time
			text = []byte(strings.NewReplacer("1200000", "12000", "300000", "3000", "1048576", "65536", "262144", "16384").Replace(string(text)))
			if err := space.Do(func() error { return countRounds(t, name, text) }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func countRounds(t *testing.T, name string, text []byte) (err error) {
	f, problems := Parse(name, text)
	if state.HasErrors(problems) {
		return ProblemsError(problems)
	}
	seen, err := Look()
	if err != nil {
		return err
	}
	n := count(seen)
	if err := seen.fits(t.Context(), f, func(p []state.Problem) { t.Error(p) }); err != nil {
		return err
	}
	if *n != (calls{facts: 1, plans: 1}) {
		t.Errorf("before anything is made: %+v", *n)
	}
	if err := seen.Close(); err != nil {
		return err
	}
	r, err := Open(datapath.Options{Tables: features.Sizes(f)})
	if err != nil {
		return err
	}
	defer func() {
		_, gone := r.unload(context.Background())
		err = errors.Join(err, gone, r.Close())
	}()
	n = count(r)
	apply := func(what string, f *config.File, most int) error {
		*n = calls{}
		applied, err := r.Apply(t.Context(), f, Strict)
		if err != nil {
			return err
		}
		t.Logf("%s: %d steps in %d rounds", what, len(applied.Steps), n.facts)
		if n.facts > most || n.plans != n.facts || n.observes != n.facts || n.applies != n.facts-1 {
			t.Errorf("%s: want %d rounds at most, in each of them one call of all: %+v", what, most, *n)
		}
		return nil
	}
	if err := apply("a start", f, 3); err != nil {
		return err
	}
	if err := apply("a start that finds everything in place", f, 1); err != nil {
		return err
	}
	next, problems := Parse(name, []byte("[interface.more]\ndevice = \"fareth0\"\naddresses = [\"10.255.255.249/30\"]\n"+string(text)))
	if state.HasErrors(problems) {
		return ProblemsError(problems)
	}
	return apply("a change", next, 2)
}
