package offload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/state"
)

func TestFlowsThatStayWithTheStackAreTold(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	c.Status &^= state.ConnectionSeenReply
	f.track(c)
	if err := s.Offer(t.Context(), []state.PassedFlow{f.passed(c, false)}, time.Second); err != nil {
		t.Fatal(err)
	}
	unknown := f.passed(masqueraded(2000), false)
	if err := s.Offer(t.Context(), []state.PassedFlow{unknown}, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	list := s.Status(5 * time.Second).Recent
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	first, second := list[0], list[1]
	if first.Why != WhyUntracked || first.From.IsValid() || first.Seconds != 3 || first.NewFrom.String() != "198.51.100.1:3000" || first.Remedy == "" {
		t.Errorf("the one that connection tracking does not know: %+v", first)
	}
	if second.Why != WhyYoung || second.From.String() != "10.0.0.2:1000" || second.NewFrom.String() != "198.51.100.1:2000" || second.Seconds != 4 || second.Interface != lanIndex {
		t.Errorf("the one that is not established: %+v", second)
	}
	// offloaded, it is none of them any more; nor when it has ended
	c.Status |= state.ConnectionSeenReply
	f.track(c)
	offer(t, s, f.passed(c, false))
	if list := s.Status(0).Recent; len(list) != 1 || list[0].Why != WhyUntracked {
		t.Errorf("%+v", list)
	}
	if err := s.Ended(masqueraded(2000)); err != nil || len(s.Status(0).Recent) != 0 {
		t.Errorf("%+v (%v)", s.Status(0).Recent, err)
	}
}

func TestOnlySoManyFlowsAreRemembered(t *testing.T) {
	s, f := newTest()
	for n := range 3 * recentMax {
		offer(t, s, f.passed(masqueraded(uint16(1+n)), false))
		if n%3 == 0 { // some twice: they stay in their place
			offer(t, s, f.passed(masqueraded(uint16(1+n)), false))
		}
	}
	list := s.Status(0).Recent
	last := masqueraded(3 * recentMax).Reply.Back().String()
	if len(list) != recentMax || !slices.ContainsFunc(list, func(l LeftFlow) bool { return l.Flow == last }) {
		t.Errorf("%d flows, want the last %d", len(list), recentMax)
	}
}

func TestEveryReasonHasARemedy(t *testing.T) {
	for why := range remedies {
		if why.Remedy() == "" {
			t.Errorf("%s: none", why)
		}
	}
	p := Policy{Blocks: []Block{{Rule: "rule 4 of chain inet home forward", Why: "it has a limit statement", IPv4: true}}}
	if got := p.refuses(masqueraded(1).Orig).Remedy(); !strings.Contains(got, "accepts established") {
		t.Errorf("a rule that looks at each packet: %q", got)
	}
	if got := Why("a helper of connection tracking reads it").Remedy(); !strings.Contains(got, "only the kernel") {
		t.Errorf("a helper: %q", got)
	}
}

func TestAgesAreThoseOfConnections(t *testing.T) {
	s, f := newTest()
	c := masqueraded(1000)
	f.track(c)
	if err := s.Offer(t.Context(), []state.PassedFlow{f.passed(c, false)}, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.Offer(t.Context(), []state.PassedFlow{f.passed(c, true)}, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	other := masqueraded(2000)
	got := s.Ages([]FlowPair{{c.Orig, c.Reply.Back()}, {c.Reply, c.Orig.Back()}, {other.Orig, other.Reply.Back()}, {other.Reply, c.Orig.Back()}}, 70*time.Second)
	if want := []int{60, 60, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A connection whose end has begun has another reason than one that is too young.
func TestWhatEndsIsNotCalledYoung(t *testing.T) {
	for tcp, want := range map[uint8]Why{2: WhyYoung, 4: WhyEnding, 7: WhyEnding, 8: WhyEnding, 9: WhyYoung} {
		s, f := newTest()
		c := masqueraded(1000)
		c.TCP = tcp
		f.track(c)
		offer(t, s, f.passed(c, false))
		if s.Status(0).Left[want] != 1 {
			t.Errorf("state %d: %v", tcp, s.Status(0).Left)
		}
	}
}
