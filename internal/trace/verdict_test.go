package trace

import (
	"slices"
	"testing"

	"weft/internal/datapath"
	"weft/internal/state"
)

func counts(list ...any) (c []datapath.Count) {
	for i := 0; i < len(list); i += 3 {
		c = append(c, datapath.Count{Program: list[i].(string), Outcome: list[i+1].(state.Outcome), Packets: uint64(list[i+2].(int))})
	}
	return c
}

func TestTheFirstDecisionThatIsMoreThanPassingOnDecides(t *testing.T) {
	slow := func(o state.Outcome) map[state.Outcome]uint64 { return map[state.Outcome]uint64{o: 1} }
	for _, c := range []struct {
		name    string
		now     tally
		verdict state.Verdict
		outcome state.Outcome
	}{
		{"nothing is counted for an interface without programs", tally{}, state.Pass, state.OutcomeNone},
		{"TC translates and hands to the stack",
			tally{programs: counts("ingress_tc", state.Forward6to4, 1)}, state.Forward, state.Forward6to4},
		{"the stack routes IPv4 to the translator",
			tally{programs: counts("ingress_tc", state.PassNotTranslated, 1, "translator_egress", state.Forward4to6, 1)},
			state.Forward, state.Forward4to6},
		{"XDP passes, TC drops",
			tally{programs: counts("ingress_xdp", state.PassTtl, 1, "ingress_tc", state.DropTruncated, 1)},
			state.Drop, state.DropTruncated},
		{"XDP and TC pass: the later one says why",
			tally{programs: counts("ingress_xdp", state.PassNoRoute, 1, "ingress_tc", state.PassNotTranslated, 1)},
			state.Pass, state.PassNotTranslated},
		{"the slow path translates",
			tally{programs: counts("ingress_tc", state.SlowFragment, 1), slow: slow(state.Forward6to4)},
			state.Forward, state.Forward6to4},
		{"the slow path drops and answers, and what it sends is no decision about the packet",
			tally{programs: counts("ingress_tc", state.SlowErrorDue, 1, "translator_ingress", state.ForwardInjected, 1), slow: slow(state.DropHopLimit)},
			state.Drop, state.DropHopLimit},
		{"the slow path passes",
			tally{programs: counts("ingress_tc", state.SlowForced, 1), slow: slow(state.PassLinkScope)},
			state.Pass, state.PassLinkScope},
		{"the slow path has not answered",
			tally{programs: counts("ingress_tc", state.SlowForced, 1)}, state.Pass, state.SlowForced},
		{"the kernel speaks of its groups on the translator's device",
			tally{programs: counts("translator_egress", state.PassLinkScope, 2)}, state.Pass, state.OutcomeNone},
		{"weft answers for a neighbour",
			tally{programs: counts("ingress_tc", state.ForwardArpReply, 1)}, state.Forward, state.ForwardArpReply},
	} {
		t.Run(c.name, func(t *testing.T) {
			verdict, outcome := judge(c.now.since(tally{}))
			if verdict != c.verdict || outcome != c.outcome {
				t.Errorf("%s because of %s, want %s because of %s", verdict, outcome, c.verdict, c.outcome)
			}
		})
	}
}

func TestOnlyWhatIsNewIsADecision(t *testing.T) {
	before := tally{
		programs: counts("ingress_tc", state.Forward6to4, 5, "translator_ingress", state.ForwardInjected, 2),
		slow:     map[state.Outcome]uint64{state.Forward6to4: 2},
	}
	now := tally{
		programs: counts("ingress_tc", state.Forward6to4, 5, "ingress_tc", state.SlowFragment, 1, "translator_ingress", state.ForwardInjected, 4),
		slow:     map[state.Outcome]uint64{state.Forward6to4: 2, state.Forward4to6: 1},
	}
	want := []Decision{
		{"ingress_tc", "slow-fragment", 1, state.SlowFragment},
		{"slow_path", "forward-4to6", 1, state.Forward4to6},
		{"translator_ingress", "forward-injected", 2, state.ForwardInjected},
	}
	if got := now.since(before); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := now.handedUp(); n != 1 {
		t.Errorf("%d packets were handed up, want 1", n)
	}
	if got := now.since(now); len(got) != 0 {
		t.Errorf("nothing happened, and yet %v", got)
	}
}

// outcome finds an outcome by its name.
func outcome(name string) state.Outcome {
	for o := range state.OutcomeCount {
		if o.String() == name {
			return o
		}
	}
	return state.OutcomeNone
}
