package nat64table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// replica is another router's knowledge, from the events that it has received.
type replica map[string]notified

type notified struct {
	state.SessionChange
	at uint32 // tick
}

func sessionName(s state.Shared) string { return fmt.Sprint(s.Protocol, s.IPv4, s.Remote4) }

func (r replica) receive(c state.SessionChange, now uint32) {
	if c.Ended {
		delete(r, sessionName(c.Shared))
		return
	}
	r[sessionName(c.Shared)] = notified{c, now}
}

// lacks compares it with what there is: the same sessions in the same states,
// none of which would be over at the other router before it is here.
func (r replica) lacks(b *bench, list []state.ListedSession, now uint32) error {
	allocators, err := Of(b.Datapath).Allocators()
	if err != nil {
		return err
	}
	timers := encodeAllocator(allocators[0]).Timers
	if len(list) != len(r) {
		return fmt.Errorf("%d sessions are there, the events left %d", len(list), len(r))
	}
	for _, l := range list {
		t, ok := r[sessionName(l.Shared)]
		if !ok || t.State != l.State || t.IPv6 != l.IPv6 || t.Remote6 != l.Remote6 {
			return fmt.Errorf("event %+v of session %+v", t, l)
		}
		timer := timers[3]
		switch {
		case l.Protocol == 17:
			timer = timers[0]
		case l.Protocol == 1:
			timer = timers[1]
		case l.State == state.SessionEstablished || l.State == state.SessionV4Fin || l.State == state.SessionV6Fin:
			timer = timers[2]
		}
		if there := t.at + ticks(t.Left) + timer/4; int32(there-now) < int32(ticks(l.Left)) {
			return fmt.Errorf("at the other router %d ticks are left to %+v", int32(there-now), l)
		}
	}
	return nil
}

// A router that only listens has, at any moment of a random history, what the
// tables have; and put into empty tables it is the same again.
func TestWhoListensHasWhatTheTablesHave(t *testing.T) {
	for name, more := range map[string]string{"open": "", "address-dependent": "filtering = \"address-dependent\"\n"} {
		t.Run(name, func(t *testing.T) {
			onEachVariant(t, shared+more, func(b *bench, r datapathtest.Variant) {
				s := sharer(t, b)
				h := &history{b: b, variant: r, model: b.model(), rand: rand.New(rand.NewPCG(*seed, 6146)), now: 1000}
				other := replica{}
				for i := range 1200 {
					if err := h.step(); err != nil {
						t.Fatalf("seed %d, packet %d: %v", *seed, i, err)
					}
					for _, c := range s.drain(t) {
						other.receive(c, h.now)
					}
					if i%20 != 0 {
						continue
					}
					if err := h.tablesAgree(); err != nil {
						t.Fatalf("seed %d, after packet %d: %v", *seed, i, err)
					}
					for _, c := range s.drain(t) {
						other.receive(c, h.now)
					}
					if err := other.lacks(b, s.listed(t), h.now); err != nil {
						t.Fatalf("seed %d, after packet %d: %v", *seed, i, err)
					}
				}
				b.takesOver(s, other, h.now)
			})
		})
	}
}

// takesOver imports the replica's sessions into empty tables, and lets them expire
// there.
func (b *bench) takesOver(s *Sharer, other replica, now uint32) {
	b.T.Helper()
	b.forget()
	b.clock(now)
	var list []state.Import
	for _, name := range slices.Sorted(maps.Keys(other)) { // in order: the seed decides
		list = append(list, state.Import{Shared: other[name].Shared, Want: state.ImportPut})
	}
	got, err := s.Import(list)
	if err != nil || int(got[state.ImportMade]+got[state.ImportKept]) != len(list) { // kept: nothing was left of it
		b.T.Fatalf("%d sessions came to %v, %v", len(list), got, err)
	}
	nodes := map[string]netip.AddrPort{}
	for _, l := range s.listed(b.T) {
		nodes[fmt.Sprint(l.Protocol, l.IPv6)] = l.IPv4
		if t := other[sessionName(l.Shared)]; t.State != l.State || !l.Remote {
			b.T.Errorf("event %+v, imported %+v", t, l)
		}
	}
	if n := b.count("nat64_bib6"); n != len(nodes) || n != b.count("nat64_bib4") {
		b.T.Errorf("%d bindings for %d nodes' ports", n, len(nodes))
	}
	b.forgetByTime()
	for _, table := range []string{"nat64_bib6", "nat64_bib4", "nat64_sessions", "nat64_subscribers", "nat64_peers"} {
		if n := b.count(table); n != 0 {
			b.T.Errorf("%d entries are left in %s", n, table)
		}
	}
}
