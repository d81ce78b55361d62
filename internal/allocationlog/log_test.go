package allocationlog

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/state"
)

// blocks is a store in memory.
type blocks struct {
	times  []uint64
	blocks [][]byte
}

func (s *blocks) Append(at uint64, block []byte, before uint64) error {
	s.times, s.blocks = append(s.times, at), append(s.blocks, slices.Clone(block))
	for len(s.times) > 1 && s.times[0] < before {
		s.times, s.blocks = s.times[1:], s.blocks[1:]
	}
	return nil
}

func (s *blocks) Forward(from uint64, see func(uint64, []byte) bool) error {
	for i, at := range s.times {
		if at >= from && !see(at, s.blocks[i]) {
			break
		}
	}
	return nil
}

func (s *blocks) Backward(from uint64, see func(uint64, []byte) bool) error {
	for i := len(s.times) - 1; i >= 0; i-- {
		if s.times[i] < from && !see(s.times[i], s.blocks[i]) {
			break
		}
	}
	return nil
}

func start() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func at(seconds int) time.Time { return start().Add(time.Duration(seconds) * time.Second) }

func port(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(n))
}

func node(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}), 4000)
}

func bound(p, n, when int) state.BindingEvent {
	return state.BindingEvent{Made: true, Protocol: 17, IPv4: port(p), IPv6: node(n), At: at(when), Since: at(when)}
}

func ended(p, n, since, when int) state.BindingEvent {
	return state.BindingEvent{Protocol: 17, IPv4: port(p), IPv6: node(n), At: at(when), Since: at(since)}
}

func TestWhoHadAPortIsFound(t *testing.T) {
	a := New(&blocks{}, 1000*time.Hour)
	marks := Marks{Epoch: "boot.1"}
	add := func(when int, events ...state.BindingEvent) {
		t.Helper()
		if err := a.Add(at(when), marks, events); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(p, when int, want int) Holder {
		t.Helper()
		h, found, err := a.Who(port(p), 17, at(when))
		if err != nil || found != (want != 0) || found && h.IPv6 != node(want) {
			t.Errorf("port %d at second %d: %v %v %v, want node %d", p, when, h, found, err, want)
		}
		return h
	}
	add(2, bound(1000, 1, 1), bound(2000, 2, 1))
	add(20, ended(1000, 1, 1, 10), bound(1000, 3, 15))
	ask(1000, 0, 0)
	ask(1000, 5, 1)
	ask(1000, 12, 0) // between two bindings
	ask(1000, 17, 3)
	ask(1000, 500, 3) // and still
	ask(2000, 500, 2)
	ask(3000, 5, 0)
	if _, found, _ := a.Who(port(1000), 6, at(5)); found {
		t.Error("the other protocol's port has an owner")
	}
	if h := ask(1000, 5, 1); !h.Made.Equal(at(1)) || !h.Ended.Equal(at(10)) {
		t.Errorf("from %s to %s", h.Made, h.Ended)
	}
	// events were lost from 20 to 40; a look at the tables finds what is bound
	if err := a.Gap(at(40), at(20), marks, []state.BindingEvent{bound(4000, 4, 30)}); err != nil {
		t.Fatal(err)
	}
	if h := ask(4000, 35, 4); !h.Uncertain {
		t.Error("it is certain although events were lost")
	}
	if h := ask(4000, 45, 4); h.Uncertain {
		t.Error("what came after the loss is uncertain")
	}
	// after a restart of the machine nothing is bound that was
	if err := a.Restart(at(60), at(50), Marks{Epoch: "boot.2"}); err != nil {
		t.Fatal(err)
	}
	ask(2000, 45, 2)
	ask(2000, 70, 0)
	when, m, found, err := a.Last()
	if !when.Equal(at(60)) || m.Epoch != "boot.2" || !found || err != nil {
		t.Errorf("the last block is %s %v %v %v", when, m, found, err)
	}
}

// A random history of many ports, asked everywhere, against the plain list.
func TestWhoAgreesWithAPlainList(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	store := &blocks{}
	a := New(store, 10000*time.Hour)
	type turn struct{ port, node, from, to int }
	var turns []turn
	var events []state.BindingEvent
	for p := 1; p <= 20; p++ {
		now := random.IntN(50)
		for now < 1000 {
			to := now + 2 + random.IntN(100)
			n := 1 + random.IntN(1<<20)
			turns = append(turns, turn{p, n, now, to})
			events = append(events, bound(p, n, now))
			if to < 1000 {
				events = append(events, ended(p, n, now, to))
			}
			now = to + 2 + random.IntN(30)
		}
	}
	slices.SortStableFunc(events, func(x, y state.BindingEvent) int { return cmp.Compare(x.At.Unix(), y.At.Unix()) })
	for len(events) > 0 {
		n := min(1+random.IntN(9), len(events))
		if err := a.Add(events[n-1].At.Add(500*time.Millisecond), Marks{}, events[:n]); err != nil {
			t.Fatal(err)
		}
		events = events[n:]
	}
	for range 5000 {
		p, when, want := 1+random.IntN(20), random.IntN(1000), 0
		for _, turn := range turns {
			if turn.port == p && turn.from < when && when < turn.to {
				want = turn.node
			}
			if turn.port == p && (turn.from == when || turn.to == when) {
				want = -1 // either answer is right
			}
		}
		h, found, err := a.Who(port(p), 17, at(when))
		if err != nil || want >= 0 && (found != (want > 0) || found && h.IPv6 != node(want)) {
			t.Fatalf("port %d at %d: %v %v %v, want node %d", p, when, h, found, err, want)
		}
	}
}

func FuzzBlocks(f *testing.F) {
	f.Add(block(Marks{"boot.1", 3}, []record{{kind: recordMade, ipv4: port(1), ipv6: node(2), protocol: 17, made: 5}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, records := readBlock(b)
		for _, r := range recordsOf(records, recordKey(port(1), 17)) {
			if got := readRecord(r.append(nil)); got != r {
				t.Errorf("%v is read as %v", r, got)
			}
		}
	})
}
