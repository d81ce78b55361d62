package offload

import (
	"testing"
	"time"

	"weft/internal/state"
)

func TestSweepKeepsWhatIsUsed(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	f.track(c)
	offer(t, s, f.passed(c, false))
	f.kept = nil
	f.idle = time.Second
	if err := sweepAll(t.Context(), s, time.Minute); err != nil || len(f.kept) != 0 {
		t.Errorf("told too early: %v, %v", f.kept, err)
	}
	if err := sweepAll(t.Context(), s, 20*time.Minute); err != nil || len(f.kept) != 1 || f.kept[0].Timeout != time.Hour-time.Second {
		t.Errorf("not told: %v, %v", f.kept, err)
	}
	f.forget(c) // its end was not heard of
	if err := sweepAll(t.Context(), s, 40*time.Minute); err != nil || len(f.flows) != 0 {
		t.Errorf("%d flows of a connection that is no more (%v)", len(f.flows), err)
	}
	f.track(c)
	offer(t, s, f.passed(c, false))
	f.idle = 2 * time.Minute
	if err := sweepAll(t.Context(), s, time.Hour); err != nil || len(f.flows) != 0 {
		t.Errorf("%d idle flows (%v)", len(f.flows), err)
	}
}

// A connection whose flows are in no table any more is forgotten once it is due,
// and one of whose directions is in use is not.
func TestSweepForgetsWhatHasNoFlows(t *testing.T) {
	s, f := newTest()
	for _, port := range []uint16{1000, 1001} {
		c := masqueraded(port)
		f.track(c)
		offer(t, s, f.passed(c, false), f.passed(c, true))
	}
	gone, half := masqueraded(1000), masqueraded(1001)
	delete(f.flows, state.FlowKey{Interface: lanIndex, Tuple: gone.Orig})
	delete(f.flows, state.FlowKey{Interface: wanIndex, Tuple: gone.Reply})
	f.closed[state.FlowKey{Interface: lanIndex, Tuple: half.Orig}] = true
	if err := sweepAll(t.Context(), s, 20*time.Minute); err != nil {
		t.Fatal(err)
	}
	if s.connections.get(gone.Orig) != nil || s.connections.get(half.Orig) == nil {
		t.Errorf("%d connections are left", len(s.connections.list))
	}
	f.closed[state.FlowKey{Interface: wanIndex, Tuple: half.Reply}] = true
	if err := sweepAll(t.Context(), s, 21*time.Minute); err != nil || len(s.connections.list) != 0 || len(f.flows) != 0 {
		t.Errorf("%d connections and %d flows are left, all of which ended (%v)", len(s.connections.list), len(f.flows), err)
	}
}
