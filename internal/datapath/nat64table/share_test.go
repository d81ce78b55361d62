package nat64table

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// sharer opens the way to other routers on a bench whose translator is shared.
func sharer(t *testing.T, b *bench) *Sharer {
	t.Helper()
	share(t, b)
	s, err := Of(b.Datapath).Sharer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.now = func() uint32 {
		var now uint32
		if err := b.Table("nat64_clock").Lookup(uint32(0), &now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	s.drain(t)
	return s
}

// share has the translators tell others.
func share(t *testing.T, b *bench) {
	t.Helper()
	allocators, err := Of(b.Datapath).Allocators()
	if err != nil || len(allocators) == 0 {
		t.Fatal(allocators, err)
	}
	for _, one := range allocators {
		one.Shared = true
		if err := b.Datapath.Write("nat64_stateful_configs", uint32(one.ID), encodeAllocator(one), false); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, one := range allocators {
			b.Datapath.Write("nat64_stateful_configs", uint32(one.ID), encodeAllocator(one), false)
		}
	})
}

func (s *Sharer) drain(t *testing.T) (list []state.SessionChange) {
	t.Helper()
	if _, err := s.Changes(1<<20, func(c state.SessionChange) { list = append(list, c) }); err != nil {
		t.Fatal(err)
	}
	return list
}

func (s *Sharer) listed(t *testing.T) (list []state.ListedSession) {
	t.Helper()
	for l := s.List(); ; {
		more, err := l.Next(func(e state.ListedSession) { list = append(list, e) })
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return list
		}
	}
}

func (s *Sharer) imports(t *testing.T, want state.ImportResult, a state.Import) {
	t.Helper()
	got, err := s.Import([]state.Import{a})
	if err != nil || got[want] != 1 {
		t.Fatalf("%+v came to %v (%v), want result %d", a, got, err, want)
	}
}

const (
	sharedNode = "[2001:db8:1::2]:40000"
	sharedFar6 = "[64:ff9b:1::198.51.100.9]:443"
	sharedFar4 = "198.51.100.9:443"
	flagSYN    = 2
	flagACK    = 16
)

func TestChangesAreToldToOthersAndRefreshmentsFourTimesInALife(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		s := sharer(t, b)
		out := b.cross(r, "SYN", flow{sharedNode, sharedFar6, 6, flagSYN}, state.Forward6to4)
		from, _ := datapathtest.Ends(out)
		b.cross(r, "SYN ACK", flow{sharedFar4, from.String(), 6, flagSYN | flagACK}, state.Forward4to6)
		got := s.drain(t)
		if len(got) != 2 || got[0].State != state.SessionV6Init || got[1].State != state.SessionEstablished || got[1].Ended {
			t.Fatalf("events %+v, want those of the SYN and its answer", got)
		}
		c := got[1]
		if c.IPv4 != from || c.IPv6 != netip.MustParseAddrPort(sharedNode) || c.Remote4 != netip.MustParseAddrPort(sharedFar4) || c.Protocol != 6 {
			t.Errorf("event %+v", c)
		}
		// a packet every ten minutes for a day: its life is 2 h 4 min
		tick := uint32(1000)
		for range 144 {
			tick += ticks(10 * time.Minute)
			b.clock(tick)
			b.cross(r, "data", flow{sharedNode, sharedFar6, 6, flagACK}, state.Forward6to4)
			got = append(got, s.drain(t)...)
		}
		if got = got[2:]; len(got) < 40 || len(got) > 50 {
			t.Errorf("%d events in a day, want one in 31 minutes", len(got))
		}
		for _, c := range got {
			if c.Left < 2*time.Hour {
				t.Errorf("the event after a packet says that %s are left", c.Left)
			}
		}
		b.clock(tick + ticks(3*time.Hour))
		if err := Of(b.Datapath).Sweep(); err != nil {
			t.Fatal(err)
		}
		if got = s.drain(t); len(got) != 1 || !got[0].Ended {
			t.Errorf("events %+v, want one of its end", got)
		}
		if lost, err := s.Lost(); lost != 0 || err != nil {
			t.Errorf("lost %d, %v", lost, err)
		}
	})
}

func TestNothingIsToldUnlessTheTranslatorIsShared(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		s, err := Of(b.Datapath).Sharer()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.drain(t)
		b.cross(r, "datagram", flow{sharedNode, sharedFar6, 17, 0}, state.Forward6to4)
		if got := s.drain(t); len(got) != 0 {
			t.Errorf("events %+v, want none", got)
		}
	})
}

func imported(want state.ImportWant) state.Import {
	return state.Import{Want: want, Owner: 3, Round: true, Shared: state.Shared{
		Protocol: 6, State: state.SessionEstablished, IPv6: netip.MustParseAddrPort(sharedNode), IPv4: netip.MustParseAddrPort(pool4 + ":5555"),
		Remote6: netip.MustParseAddr("64:ff9b:1::198.51.100.9"), Remote4: netip.MustParseAddrPort(sharedFar4), Left: time.Hour, Age: time.Minute,
	}}
}

func TestWhatAnotherRouterHadCarriesPacketsAtOnceAndIsThisOnesThen(t *testing.T) {
	for name, first := range map[string]flow{
		"from the node":   {sharedNode, sharedFar6, 6, flagACK},
		"from the server": {sharedFar4, pool4 + ":5555", 6, flagACK},
	} {
		t.Run(name, func(t *testing.T) {
			onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
				s := sharer(t, b)
				s.imports(t, state.ImportMade, imported(state.ImportPut))
				if got := s.drain(t); len(got) != 0 {
					t.Errorf("events %+v of a session that was imported", got)
				}
				l := s.listed(t)
				if len(l) != 1 || !l[0].Remote || l[0].Owner != 3 || !l[0].Round || l[0].Left < time.Hour {
					t.Fatalf("listed as %+v", l)
				}
				b.clock(1001)
				want := state.Forward6to4
				if strings.HasPrefix(first.from, "198") {
					want = state.Forward4to6
				}
				out := b.cross(r, "data", first, want)
				from, to := datapathtest.Ends(out)
				if want == state.Forward6to4 && from.String() != pool4+":5555" || want == state.Forward4to6 && to.String() != sharedNode {
					t.Errorf("left from %s to %s", from, to)
				}
				if got := s.drain(t); len(got) != 1 || got[0].Ended || got[0].State != state.SessionEstablished {
					t.Errorf("events %+v, want one that it is here now", got)
				}
				if l = s.listed(t); len(l) != 1 || l[0].Remote {
					t.Errorf("listed as %+v, want its own", l)
				}
				// the other router's last event of it comes too late
				s.imports(t, state.ImportKept, imported(state.ImportEnd))
				b.cross(r, "more", flow{sharedNode, sharedFar6, 6, flagACK}, state.Forward6to4)
				if b.count("nat64_bib6") != 1 || b.count("nat64_bib4") != 1 || b.count("nat64_subscribers") != 1 {
					t.Error("tables do not agree")
				}
			})
		})
	}
}

func TestAdoptedSessionsEndAndNothingOfThemStays(t *testing.T) {
	b := newStateful(t, shared)
	s := sharer(t, b)
	empty := func(why string) {
		t.Helper()
		for _, name := range []string{"nat64_sessions", "nat64_bib6", "nat64_bib4", "nat64_subscribers"} {
			if n := b.count(name); n != 0 {
				t.Errorf("%s: %d entries in %s", why, n, name)
			}
		}
	}
	s.imports(t, state.ImportMade, imported(state.ImportPut))
	s.imports(t, state.ImportRenewed, imported(state.ImportPut))
	s.imports(t, state.ImportEnded, imported(state.ImportEnd))
	empty("ended by its router")
	s.imports(t, state.ImportKept, imported(state.ImportEnd))

	// its router is gone: a quarter of its life is added, for packets unheard of
	s.imports(t, state.ImportMade, imported(state.ImportPut))
	b.clock(1000 + ticks(time.Hour+30*time.Minute))
	if err := Of(b.Datapath).Sweep(); err != nil {
		t.Fatal(err)
	}
	if len(s.listed(t)) != 1 {
		t.Error("it died early")
	}
	b.clock(1000 + ticks(time.Hour+32*time.Minute))
	if err := Of(b.Datapath).Sweep(); err != nil {
		t.Fatal(err)
	}
	empty("ended by time")
	if got := s.drain(t); len(got) != 0 {
		t.Errorf("events %+v for the session's own router", got)
	}
}

func TestWhoWinsWhenRoutersDiffer(t *testing.T) {
	b := newStateful(t, shared)
	s := sharer(t, b)
	s.imports(t, state.ImportMade, imported(state.ImportPut))

	other := imported(state.ImportPut)
	other.IPv6 = netip.MustParseAddrPort("[2001:db8:1::77]:40000")
	s.imports(t, state.ImportConflict, other) // the same session for another node
	other.Remote4 = netip.MustParseAddrPort("198.51.100.10:443")
	s.imports(t, state.ImportConflict, other) // the same port
	moved := imported(state.ImportPut)
	moved.IPv4 = netip.MustParseAddrPort(pool4 + ":5556")
	s.imports(t, state.ImportConflict, moved) // the node has another port here

	second := imported(state.ImportPut)
	second.Remote4, second.Remote6 = netip.MustParseAddrPort("198.51.100.10:443"), netip.MustParseAddr("64:ff9b:1::198.51.100.10")
	s.imports(t, state.ImportMade, second) // a second session of the binding
	if b.count("nat64_bib6") != 1 || b.count("nat64_sessions") != 2 {
		t.Error("the binding is not shared by its sessions")
	}

	// ours, and the other knows of no later packet
	r := bothWays()[0]
	b.TakeVariant(r)
	b.clock(1001)
	b.cross(r, "data", flow{sharedNode, sharedFar6, 6, flagACK}, state.Forward6to4)
	old := imported(state.ImportPut)
	old.Left = 2 * time.Hour
	s.imports(t, state.ImportKept, old)
	// but it does now: it has the traffic
	b.clock(1000 + ticks(time.Minute))
	old.Left = 2*time.Hour + 4*time.Minute
	s.imports(t, state.ImportRenewed, old)
	lent := imported(state.ImportReplicate)
	lent.Round = false
	s.imports(t, state.ImportKept, lent)
	for _, l := range s.listed(t) {
		if l.Remote4 == old.Remote4 && (!l.Remote || l.Round) {
			t.Errorf("%+v: want it the other's, seen in the newer round", l)
		}
	}
	// lent ones are made if they are not there, and no more
	third := imported(state.ImportReplicate)
	third.Remote4 = netip.MustParseAddrPort("198.51.100.11:443")
	s.imports(t, state.ImportMade, third)
	third.Left = 0
	s.imports(t, state.ImportKept, third)
}

func TestAFullRingIsCounted(t *testing.T) {
	b := newStateful(t, shared)
	s := sharer(t, b)
	before, err := s.Lost()
	if err != nil {
		t.Fatal(err)
	}
	const sessions, rounds = 2000, 10
	r := bothWays()[0]
	b.TakeVariant(r)
	for round := range uint32(rounds) {
		b.clock(1000 + 100*round)
		var list []state.Import
		for i := range sessions {
			a := imported(state.ImportPut)
			a.Protocol, a.State, a.Left = 17, state.SessionActive, time.Hour
			a.Remote4 = netip.AddrPortFrom(a.Remote4.Addr(), uint16(1000+i))
			list = append(list, a)
		}
		if got, err := s.Import(list); err != nil || got[state.ImportMade]+got[state.ImportRenewed] != sessions {
			t.Fatal(got, err)
		}
		// packets make them this router's, and there is no reader
		for i := range sessions {
			in := flow{sharedNode, netip.AddrPortFrom(netip.MustParseAddr("64:ff9b:1::198.51.100.9"), uint16(1000+i)).String(), 17, 0}.packet().Bytes()
			b.Run(r.Program, r.From(in), b.Frame(datapathtest.Side(in), in))
		}
	}
	notified, err := s.Lost()
	if err != nil {
		t.Fatal(err)
	}
	if lost := notified - before; lost == 0 || int(lost)+len(s.drain(t)) != sessions*rounds {
		t.Errorf("of %d changes %d were lost, and the rest did not come", sessions*rounds, lost)
	}
}
