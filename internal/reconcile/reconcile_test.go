package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/state"
)

// fake is a door behind which objects are kept in a map. It dies before the
// step dieAt (counted from 0) if that is not negative: halfway says whether
// the step has been done when it does.
type fake struct {
	there   map[string]state.Object
	done    []state.Step
	dieAt   int
	halfway bool
	fails   string // key of an object that cannot be set
}

var errDied = errors.New("died")

func newFake(objects ...state.Object) *fake {
	f := &fake{there: map[string]state.Object{}, dieAt: -1}
	for _, o := range objects {
		f.there[o.Key()] = o
	}
	return f
}

func (f *fake) Observe(context.Context, state.Desired) ([]state.Object, error) {
	var all []state.Object
	for _, o := range f.there { // in any order
		all = append(all, o)
	}
	return all, nil
}

func (f *fake) Apply(_ context.Context, s state.Step) error {
	dies := f.dieAt == len(f.done)
	if dies && !f.halfway {
		return errDied
	}
	if f.fails == s.Object.Key() {
		return errDied
	}
	f.done = append(f.done, s)
	switch s.Op {
	case state.Remove:
		delete(f.there, s.Object.Key())
	default:
		if err := f.leansOnNothing(s.Object); err != nil {
			return err
		}
		f.there[s.Object.Key()] = s.Object
	}
	if dies {
		return errDied
	}
	return nil
}

// leansOnNothing: as in the kernel, a route needs its device.
func (f *fake) leansOnNothing(o state.Object) error {
	if r, ok := o.(state.Route); ok && f.there["device "+r.Device] == nil {
		return fmt.Errorf("%s: no such device", r)
	}
	return nil
}

// pair is one fake behind both doors, so that the order of all steps shows.
func (f *fake) targets() Targets { return Targets{state.Kernel: f, state.Datapath: &nothing{f}} }

// nothing observes nothing, for the second door to the same objects.
type nothing struct{ *fake }

func (nothing) Observe(context.Context, state.Desired) ([]state.Object, error) { return nil, nil }

// router is what a small configuration wants.
func router(device string, mtu int) state.Desired {
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	return state.Desired{
		state.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"},
		state.Link{Name: "lan"},
		state.Address{Device: "lan", Prefix: netip.MustParsePrefix("2001:db8::1/64")},
		state.Device{Name: device, MTU: mtu, Owner: "nat64.main"},
		state.Translator{ID: 0, Name: "main", Device: device},
		state.Rule{From: prefix, To: netip.MustParsePrefix("2001:db8:3::/120"), Kind: state.RuleMapping},
		state.Attachment{Device: device, Hook: state.HookEgress, Program: "translator_egress", Build: "a"},
		state.Route{Prefix: prefix, Device: device, MTU: mtu - 40},
		state.IngressEntry{Device: "lan", Translators: 1},
		state.Attachment{Device: "lan", Hook: state.HookIngress, Program: "ingress_tc", Build: "a"},
	}
}

// mustBe compares what is there with what is desired, all of it.
func mustBe(t *testing.T, f *fake, desired state.Desired) {
	t.Helper()
	if len(f.there) != len(desired) {
		t.Errorf("there are %d objects, want %d", len(f.there), len(desired))
	}
	for _, o := range desired {
		if f.there[o.Key()] != o {
			t.Errorf("there is %v, want %v", f.there[o.Key()], o)
		}
	}
}

// attempt plans and applies once.
func attempt(t *testing.T, f *fake, desired state.Desired) ([]state.Step, error) {
	t.Helper()
	steps, err := f.targets().Plan(t.Context(), desired)
	if err != nil {
		t.Fatal(err)
	}
	return steps, f.targets().Apply(t.Context(), steps)
}

// converge makes an attempt that must succeed.
func converge(t *testing.T, f *fake, desired state.Desired) []state.Step {
	t.Helper()
	done, err := attempt(t, f, desired)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, f, desired)
	return done
}

func TestTheSecondTimeThereIsNothingToDo(t *testing.T) {
	f, desired := newFake(), router("nat64-main", 1500)
	if done := converge(t, f, desired); len(done) != len(desired) {
		t.Errorf("the first time took %d steps, want %d", len(done), len(desired))
	}
	if done := converge(t, f, desired); len(done) != 0 {
		t.Errorf("the second time took %v", done)
	}
}

// From one configuration to another, dying before or after each step in turn:
// the next attempt finishes, and then nothing is left to do.
func TestDyingMidwayAtAnyStepIsMadeGoodByTheNextAttempt(t *testing.T) {
	from, to := router("nat64-main", 1500), append(router("siit0", 9000), state.Address{Device: "lan", Prefix: netip.MustParsePrefix("2001:db8:2::1/64")})
	for name, change := range map[string][2]state.Desired{
		"from nothing": {nil, from}, "to another configuration": {from, to}, "and back": {to, from}, "to nothing": {from, nil},
	} {
		steps := len(Steps(change[1], change[0]))
		if steps == 0 {
			t.Fatalf("%s: no steps", name)
		}
		for at := range steps {
			for _, halfway := range []bool{false, true} {
				f := newFake(change[0]...)
				f.dieAt, f.halfway = at, halfway
				if _, err := attempt(t, f, change[1]); !errors.Is(err, errDied) {
					t.Fatalf("%s: at step %d: %v, want that it died", name, at, err)
				}
				if want := at + map[bool]int{true: 1}[halfway]; len(f.done) != want {
					t.Errorf("%s: %d steps were done when it died at %d", name, len(f.done), at)
				}
				f.dieAt = -1
				converge(t, f, change[1])
				if done := converge(t, f, change[1]); len(done) != 0 {
					t.Errorf("%s: died at step %d, made good, and then again %v", name, at, done)
				}
			}
		}
	}
}

func TestWhatIsAddedComesBeforeWhatIsRemoved(t *testing.T) {
	steps := Steps(router("siit0", 1500), []state.Object(router("nat64-main", 1500)))
	if len(steps) == 0 {
		t.Fatal("no steps")
	}
	firstRemoval := slices.IndexFunc(steps, func(s state.Step) bool { return s.Op == state.Remove })
	lastOther := len(steps) - 1
	for steps[lastOther].Op == state.Remove {
		lastOther--
	}
	if firstRemoval < lastOther {
		t.Errorf("removes at %d and goes on adding until %d: %v", firstRemoval, lastOther, steps)
	}
}

func TestAddingFollowsTheOrderOfWhatIsDesired(t *testing.T) {
	desired := router("nat64-main", 1500)
	for i, s := range Steps(desired, nil) {
		if s.Op != state.Add || s.Object != desired[i] {
			t.Errorf("step %d is %v, want add %v", i, s, desired[i])
		}
	}
}

func TestProgramsGoFirstAndDevicesLast(t *testing.T) {
	objects := []state.Object(router("nat64-main", 1500))
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		var kinds []string
		for _, s := range Steps(nil, objects) {
			if s.Op != state.Remove {
				t.Fatalf("%v is no removal", s)
			}
			if k, _, _ := strings.Cut(s.Object.Key(), " "); len(kinds) == 0 || kinds[len(kinds)-1] != k {
				kinds = append(kinds, k)
			}
		}
		order := strings.Join(kinds, " ")
		program, route, device := strings.Index(order, "program"), strings.Index(order, "route"), strings.Index(order, "device")
		sysctl := strings.Index(order, "sysctl")
		if program != 0 || route < program || device < route || sysctl < device {
			t.Errorf("removed in the order %s", order)
		}
	}
}

func TestWhatDiffersIsChangedAndSaysFromWhat(t *testing.T) {
	was, is := state.Link{Name: "lan", MTU: 1500}, state.Link{Name: "lan", MTU: 9000}
	steps := Steps(state.Desired{is}, []state.Object{was})
	if len(steps) != 1 || steps[0] != (state.Step{Op: state.Change, Object: is, Was: was}) {
		t.Errorf("steps are %v", steps)
	}
}

func TestAnErrorStopsWhatLeansOnTheFailedStep(t *testing.T) {
	f, desired := newFake(), router("nat64-main", 1500)
	f.dieAt = 3 // the device
	_, err := attempt(t, f, desired)
	if !errors.Is(err, errDied) || len(f.done) != 3 || f.there["route 192.0.2.0/24 dev nat64-main"] != nil {
		t.Errorf("%v after %v", err, f.done)
	}
}

// What does not lean on a step that failed is done; what names a device that
// could not be made is not: a device of that name may be there that is not weft's.
func TestAToleratedFailureLeavesOutWhatLeansOnIt(t *testing.T) {
	f, desired := newFake(), router("nat64-main", 1500)
	f.fails = "device nat64-main"
	steps, err := f.targets().Plan(t.Context(), desired)
	if err != nil {
		t.Fatal(err)
	}
	failures, err := f.targets().ApplyAll(t.Context(), steps, nil, func(state.Step) bool { return true })
	if err != nil || len(failures) == 0 || failures[0].Step.Object.Key() != f.fails {
		t.Errorf("%v, failures %v", err, failures)
	}
	for _, x := range failures[1:] {
		if !errors.Is(x.Err, ErrLeftOut) || !state.Names(x.Step.Object, "nat64-main") {
			t.Errorf("failed, too: %v", x)
		}
	}
	for _, o := range desired {
		if leans := state.Names(o, "nat64-main"); (f.there[o.Key()] == nil) != leans {
			t.Errorf("%s: done %v", o, leans)
		}
	}
	f.fails = ""
	converge(t, f, desired)
}

// Without tolerance, and for a step that is not tolerated, nothing more is done.
func TestAFailureThatIsNotToleratedStops(t *testing.T) {
	f, desired := newFake(), router("nat64-main", 1500)
	f.fails = desired[1].Key()
	steps, err := f.targets().Plan(t.Context(), desired)
	if err != nil {
		t.Fatal(err)
	}
	failures, err := f.targets().ApplyAll(t.Context(), steps, nil, func(s state.Step) bool { return s.Object != desired[1] })
	if !errors.Is(err, errDied) || len(failures) > 0 || len(f.there) != 1 {
		t.Errorf("%v, failures %v, done %v", err, failures, f.done)
	}
}

// No frame crosses a bridge without its guards.
func TestAPortDoesNotJoinItsBridgeWithoutItsGuard(t *testing.T) {
	guard := state.BridgeGuard{Device: "vm1", Bridge: "br0", Role: state.BridgeGuest, Member: true}
	port, other := state.BridgePort{Device: "vm1", Bridge: "br0"}, state.BridgePort{Device: "vm2", Bridge: "br0"}
	f := newFake()
	f.fails = guard.Key()
	_, err := f.targets().ApplyAll(t.Context(), Steps(state.Desired{guard, port, other}, nil), nil, func(state.Step) bool { return true })
	if err != nil || f.there[port.Key()] != nil || f.there[other.Key()] == nil {
		t.Errorf("%v, done %v", err, f.done)
	}
}

func TestADoorThatIsMissingIsAnErrorNotAPanic(t *testing.T) {
	f := newFake()
	err := Targets{state.Kernel: f}.Apply(t.Context(), Steps(router("nat64-main", 1500), nil))
	if err == nil || !strings.Contains(err.Error(), "not open") {
		t.Errorf("%v", err)
	}
}

// several is a fake that takes devices two at a time, if there are two.
type several struct {
	*fake
	together []int
}

func (s *several) ApplySome(ctx context.Context, steps []state.Step) (int, error) {
	n := 0
	for n < min(2, len(steps)) && steps[n].Object.Domain() == state.Kernel && strings.HasPrefix(steps[n].Object.Key(), "device ") {
		n++
	}
	if n < 2 {
		return 0, nil
	}
	for i, step := range steps[:n] {
		if err := s.Apply(ctx, step); err != nil {
			return i, err
		}
	}
	s.together = append(s.together, n)
	return n, nil
}

func TestADoorMayTakeSeveralStepsAtOnce(t *testing.T) {
	var desired state.Desired
	for i := range 5 {
		desired = append(desired, state.Device{Name: fmt.Sprintf("d%d", i), Owner: "nat64.main"})
	}
	desired = append(desired, state.Sysctl{Name: "a", Value: "1"})
	s := &several{fake: newFake()}
	targets := Targets{state.Kernel: s}
	if err := targets.Apply(t.Context(), Steps(desired, nil)); err != nil {
		t.Fatal(err)
	}
	if len(s.done) != 6 || !slices.Equal(s.together, []int{2, 2}) {
		t.Errorf("did %v, together %v", s.done, s.together)
	}
	for i, step := range s.done {
		if step.Object != desired[i] {
			t.Errorf("step %d was %v, want %v", i, step, desired[i])
		}
	}
	s = &several{fake: newFake()}
	s.dieAt = 3 // the second of a pair
	if err := (Targets{state.Kernel: s}).Apply(t.Context(), Steps(desired, nil)); !errors.Is(err, errDied) || len(s.done) != 3 {
		t.Errorf("%v after %v", err, s.done)
	}
}
