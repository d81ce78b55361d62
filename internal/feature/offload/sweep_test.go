package offload

import (
	"slices"
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
		t.Errorf("refreshed too early: %v, %v", f.kept, err)
	}
	if err := sweepAll(t.Context(), s, 20*time.Minute); err != nil || len(f.kept) != 1 || f.kept[0].Timeout != time.Hour-time.Second {
		t.Errorf("not refreshed: %v, %v", f.kept, err)
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

// Connection tracking gives UDP whose packets still come two seconds after the answer
// more time, and does not push it out: so must weft, which takes the flow before that.
func TestUDPThatGoesOnIsAStream(t *testing.T) {
	udp := func() state.Connection {
		c := masqueraded(1000)
		c.Orig.Protocol, c.Reply.Protocol = state.ProtocolUDP, state.ProtocolUDP
		c.TCP, c.Timeout, c.Status = 0, 30*time.Second, state.ConnectionConfirmed|state.ConnectionSeenReply
		return c
	}
	for _, tt := range []struct {
		name   string
		policy Policy
		idle   time.Duration // at the look after ten seconds
		before state.Connection
		want   []state.KeptConnection
	}{
		{"it goes on", Policy{}, 4 * time.Second, udp(), []state.KeptConnection{{Orig: udp().Orig, Timeout: 116 * time.Second, Assured: true}}},
		{"it was over at once", Policy{}, 9 * time.Second, udp(), []state.KeptConnection{{Orig: udp().Orig, Timeout: 21 * time.Second}}},
		{"the ruleset has times of its own", Policy{Timeouts: true}, 4 * time.Second, udp(), []state.KeptConnection{{Orig: udp().Orig, Timeout: 26 * time.Second}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, f := newTest()
			s.UDPStream(2 * time.Minute)
			s.SetPolicy(tt.policy)
			f.track(tt.before)
			offer(t, s, f.passed(tt.before, false))
			f.idle = tt.idle
			if err := sweepAll(t.Context(), s, 10*time.Second); err != nil || !slices.Equal(f.kept, tt.want) {
				t.Errorf("connection tracking got %+v, want %+v (%v)", f.kept, tt.want, err)
			}
			f.kept, f.idle = nil, 0
			if err := sweepAll(t.Context(), s, 15*time.Second); err != nil || len(f.kept) != 0 {
				t.Errorf("refreshed again too early: %+v (%v)", f.kept, err)
			}
		})
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
