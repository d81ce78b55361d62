package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"weft/internal/config"
	"weft/internal/reconcile"
	"weft/internal/state"
)

// door is one that cannot set some objects; it keeps what it was asked for.
type door struct {
	fails []string // keys
	there map[string]state.Object
	asked []string
}

func (h *door) Observe(context.Context, state.Desired) (list []state.Object, err error) {
	for _, o := range h.there {
		list = append(list, o)
	}
	return list, nil
}

func (h *door) Apply(_ context.Context, s state.Step) error {
	h.asked = append(h.asked, s.Object.Key())
	if slices.Contains(h.fails, s.Object.Key()) {
		return errors.New("refused")
	}
	h.there[s.Object.Key()] = s.Object
	return nil
}

// What leans on a step that failed is done in no round: a device of that name may
// be another's, and no frame crosses a bridge past a guard that is missing.
func TestWhatLeansOnAFailureIsLeftOutInEveryRound(t *testing.T) {
	device := state.Device{Name: "siit0", Owner: "nat64.main"}
	guard := state.BridgeGuard{Device: "vm1", Bridge: "br0", Role: state.BridgeGuest, Member: true}
	onDevice := state.Attachment{Device: "siit0", Hook: state.HookEgress, Program: "translator_egress"}
	later := state.Attachment{Device: "siit0", Hook: state.HookIngress, Program: "translator_ingress"}
	port, other := state.BridgePort{Device: "vm1", Bridge: "br0"}, state.BridgePort{Device: "vm2", Bridge: "br0"}
	desired := state.Desired{device, guard, onDevice, port, other}
	for _, fails := range [][]string{{device.Key(), guard.Key()}, nil} {
		h := &door{fails: fails, there: map[string]state.Object{}}
		targets := reconcile.Targets{state.Kernel: h, state.Datapath: &onlyApplies{h}}
		rounds := 0
		s := stages{
			facts: func(context.Context, *config.File) (state.Facts, error) { return state.Facts{}, nil },
			plan: func(*config.File, state.Facts) (state.Desired, []state.Problem) {
				if rounds++; rounds > 1 { // what the first round made is a fact now
					return append(slices.Clone(desired), later), nil
				}
				return desired, nil
			},
			observe: targets.Plan,
			apply: func(ctx context.Context, steps []state.Step, before []reconcile.Failure, t Tolerance) ([]reconcile.Failure, error) {
				return targets.ApplyAll(ctx, steps, before, t.Step)
			},
		}
		a, err := s.settle(t.Context(), nil, tolerant)
		if err != nil {
			t.Fatal(err)
		}
		if fails == nil {
			if len(a.Failures) != 0 || len(h.there) != len(desired)+1 {
				t.Errorf("nothing fails: failures %v, done %v", a.Failures, h.asked)
			}
			continue
		}
		if slices.Contains(h.asked, onDevice.Key()) || slices.Contains(h.asked, later.Key()) || slices.Contains(h.asked, port.Key()) || h.there[other.Key()] == nil {
			t.Errorf("done: %q", h.asked)
		}
		u := &unset{}
		for _, f := range a.Failures {
			if errors.Is(f.Err, errNotKept) {
				t.Errorf("left out, and said to be not kept: %v", f)
			}
		}
		u.update(slog.New(slog.DiscardHandler), a)
		if lines := u.lines(); len(lines) != 2 {
			t.Errorf("health has a line for what was left out, too: %v", lines)
		}
	}
}

// onlyApplies is the second door to the same objects.
type onlyApplies struct{ *door }

func (onlyApplies) Observe(context.Context, state.Desired) ([]state.Object, error) { return nil, nil }
