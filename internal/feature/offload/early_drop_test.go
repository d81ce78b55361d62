package offload

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/state"
)

// fakeRefusals is the programs' table of refused flows.
type fakeRefusals struct {
	there map[state.FlowKey]bool // and whether it holds
	epoch uint32
	put   func() // something happens when flows were written
}

func (f *fakeRefusals) PutRefusals(list []state.FlowKey) error {
	for _, k := range list {
		f.there[k] = false
	}
	if f.put != nil {
		f.put()
	}
	return nil
}

func (f *fakeRefusals) HoldRefusals(list []state.FlowKey, _, _ uint32, _ time.Duration) error {
	for _, k := range list {
		if _, there := f.there[k]; there {
			f.there[k] = true
		}
	}
	return nil
}

func (f *fakeRefusals) DeleteRefusals(list []state.FlowKey) error {
	for _, k := range list {
		delete(f.there, k)
	}
	return nil
}

func (f *fakeRefusals) Refuse(epoch uint32) { f.epoch = epoch }

func refusing() (*Service, *fake, *fakeRefusals) {
	s, f := newTest()
	r := &fakeRefusals{there: map[state.FlowKey]bool{}}
	s.Refuse(r)
	s.SetRefusable(Refusable{})
	return s, f, r
}

// knock is a packet that the ruleset has dropped.
func knock() state.RefusedPacket {
	p := state.RefusedPacket{Family: 1, Table: "home", Chain: "forward", To: member}
	p.Interface = wanIndex
	p.Tuple = state.FlowTuple{Src: netip.MustParseAddr("203.0.113.80").As16(), Dst: netip.MustParseAddr("198.51.100.1").As16(), SrcPort: 4000, DstPort: 5000, Protocol: state.ProtocolUDP}
	return p
}

func due(t *testing.T, s *Service, ctx context.Context, now time.Duration) {
	t.Helper()
	if err := s.RefuseDue(ctx, now); err != nil || s.Err() != nil {
		t.Fatal(err, s.Err())
	}
}

func TestARefusedFlowIsDroppedWhenNothingHasChangedSince(t *testing.T) {
	s, _, r := refusing()
	p := knock()
	s.Refused([]state.RefusedPacket{p, p}, 0)
	due(t, s, t.Context(), refuseAfter/2)
	if len(r.there) != 0 {
		t.Error("it was believed at once")
	}
	due(t, s, t.Context(), refuseAfter)
	if !r.there[p.FlowKey] || s.Status(0).Refusals != 1 || s.Status(0).Refused[0].Rule != "policy of chain inet home forward" {
		t.Errorf("held %v, status %+v", r.there, s.Status(0).Refused)
	}
	due(t, s, t.Context(), refuseAfter+refuseFor)
	if len(s.Status(0).Refused) != 0 {
		t.Error("it is listed after its time")
	}
}

// When its time is over, the ruleset sees a packet of the flow and refuses it again: it
// is dropped early again, although no other flow is refused meanwhile.
func TestAFlowThatIsRefusedAgainIsDroppedAgain(t *testing.T) {
	s, _, r := refusing()
	p := knock()
	for round := range 3 {
		now := time.Duration(round) * (refuseFor + time.Second)
		s.Refused([]state.RefusedPacket{p}, now)
		if !s.Waiting() {
			t.Fatalf("round %d: the refusal is not taken", round)
		}
		due(t, s, t.Context(), now+refuseAfter)
		if !r.there[p.FlowKey] {
			t.Errorf("round %d: the flow is not dropped", round)
		}
		delete(r.there, p.FlowKey)
	}
}

// So many refusals as there is room for do not stand in the way of others when
// their time is over.
func TestRefusalsWhoseTimeIsOverMakeRoom(t *testing.T) {
	s, _, _ := refusing()
	p := knock()
	for i := range refusedMax {
		q := p
		q.Tuple.SrcPort, q.Tuple.DstPort = uint16(i), 1
		s.refused.held[q.FlowKey] = heldRefusal{until: refuseFor}
	}
	if s.Refused([]state.RefusedPacket{p}, refuseFor-1); s.Waiting() {
		t.Error("there is room for more than there should be")
	}
	if s.Refused([]state.RefusedPacket{p}, refuseFor); !s.Waiting() {
		t.Error("there is no room for another")
	}
}

func TestWhatVoidsARefusal(t *testing.T) {
	route := func(p string) func(*Service) {
		return func(s *Service) {
			s.Route(&state.KernelRoute{Prefix: netip.MustParsePrefix(p), Type: state.RouteUnicast}, state.RouteReplaced)
		}
	}
	for _, tt := range []struct {
		name  string
		stays bool
		do    func(*Service)
	}{
		{"the route to its source", false, route("203.0.113.0/24")},
		{"that to its destination", false, route("198.51.100.1/32")},
		{"that to where NAT sends it", false, route("10.0.0.0/8")},
		{"a route that no flow uses", true, route("100.64.0.0/10")},
		{"the ruleset", false, func(s *Service) { s.RulesetChanged() }},
		{"rules of routing", false, func(s *Service) { s.Rules([]state.KernelRule{{Table: 9}}) }},
		{"a link", false, func(s *Service) {
			s.Link(state.KernelLink{Index: wanIndex, MAC: macs[wanIndex], MTU: 1500, Ethernet: true})
		}},
	} {
		for _, held := range []bool{false, true} {
			s, f, r := refusing()
			generation, epoch := f.generation, r.epoch
			s.Refused([]state.RefusedPacket{knock()}, 0)
			if held {
				due(t, s, t.Context(), refuseAfter)
			}
			tt.do(s)
			due(t, s, t.Context(), 2*refuseAfter)
			got := r.there[knock().FlowKey] && (!held || f.generation == generation && r.epoch == epoch)
			if got != tt.stays {
				t.Errorf("%s, after it held %v: it is dropped: %v", tt.name, held, got)
			}
		}
	}
}

// A connection the other way lets the flow's packets in: whenever it begins,
// none is dropped.
func TestAConnectionThatBeginsMeanwhileIsNotRefused(t *testing.T) {
	p := knock()
	answered := state.Connection{Orig: p.Tuple.Back(), Reply: p.Tuple, Status: state.ConnectionConfirmed}
	t.Run("before it was written", func(t *testing.T) {
		s, f, r := refusing()
		f.track(answered)
		s.Refused([]state.RefusedPacket{p}, 0)
		due(t, s, t.Context(), refuseAfter)
		if len(r.there) != 0 || s.Status(0).NotRefused[WhyGone] != 1 {
			t.Errorf("%v, %v", r.there, s.Status(0).NotRefused)
		}
	})
	t.Run("after it was written: the program takes it back", func(t *testing.T) {
		s, _, r := refusing()
		r.put = func() { delete(r.there, p.FlowKey) }
		s.Refused([]state.RefusedPacket{p}, 0)
		due(t, s, t.Context(), refuseAfter)
		if len(r.there) != 0 {
			t.Errorf("%v", r.there)
		}
	})
	t.Run("in a zone", func(t *testing.T) {
		s, f, r := refusing()
		s.SetPolicy(Policy{Zones: []uint16{7}})
		f.zones[7] = map[state.FlowTuple]state.Connection{p.Tuple: answered}
		s.Refused([]state.RefusedPacket{p}, 0)
		due(t, s, t.Context(), refuseAfter)
		if len(r.there) != 0 {
			t.Errorf("%v", r.there)
		}
	})
}

// What a ruleset's refusal of one packet tells of the flow.
func TestWhichRefusalsAreOfTheFlow(t *testing.T) {
	const head = `{"nftables":[{"table":{"family":"inet","name":"home"}},{"chain":{"family":"inet","table":"home","name":"forward","type":"filter","hook":"forward","policy":"drop"}},{"set":{"family":"inet","table":"home","name":"slow","type":"ipv4_addr","flags":["timeout"]}},{"set":{"family":"inet","table":"home","name":"banned","type":"ipv4_addr"}}`
	drop := `{"drop":null}`
	port := `{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":5000}}`
	limit := `{"limit":{"rate":10,"per":"second"}}`
	for _, tt := range []struct{ name, rules, why string }{
		{"a policy", ``, ""},
		{"a rule by port", port + "," + drop, ""},
		{"a set that changes at run time", `{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@banned"}},` + drop, ""},
		{"a set whose elements end by themselves", `{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@slow"}},` + drop, "come and go"},
		{"a log at a limited rate", limit + `,{"log":{"prefix":"x"}}`, ""},
		{"what lets some in", limit + `,{"accept":null}`, "limit statement"},
		{"the same for established ones", `{"match":{"op":"==","left":{"ct":{"key":"state"}},"right":"established"}},` + limit + `,{"accept":null}`, ""},
		{"the same for TCP", `{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":"tcp"}},` + limit + `,{"accept":null}`, ""},
		{"verdicts by state", `{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["established",{"accept":null}],["invalid",{"drop":null}]]}}}`, ""},
		{"lengths", `{"match":{"op":"<","left":{"meta":{"key":"length"}},"right":100}},` + drop, "meta length"},
		{"hours", `{"match":{"op":"==","left":{"meta":{"key":"hour"}},"right":3}},` + drop, "meta hour"},
		{"an answer", port + `,{"reject":{"type":"icmpx","expr":"port-unreachable"}}`, "answers"},
		{"something that is not known", `{"xt":{"type":"match","name":"recent"}},` + drop, "xt statement"},
		{"a helper", `{"ct helper":"ftp"}`, "helpers"},
	} {
		text := head
		if tt.rules != "" {
			text += `,{"rule":{"family":"inet","table":"home","chain":"forward","handle":4,"expr":[` + tt.rules + `]}}`
		}
		_, refusable, err := ReadRuleset([]byte(text + "]}"))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		p := knock()
		p.Rule = 4
		got := string(refusable.refuses(p))
		if (got == "") != (tt.why == "") || !strings.Contains(got, tt.why) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.why)
		}
	}
}
