package offload

import (
	"encoding/binary"
	"testing"
	"time"

	"weft/internal/state"
)

// numbered is the connection of that number, one of many.
func numbered(n int) state.Connection {
	c := masqueraded(uint16(n))
	binary.BigEndian.PutUint32(c.Orig.Src[12:], 0x0a000000|uint32(n>>16))
	c.Orig.SrcPort = uint16(n)
	binary.BigEndian.PutUint16(c.Reply.Dst[14:], uint16(n>>16))
	c.Reply.DstPort = uint16(n)
	c.ID = uint32(n)
	return c
}

// offersAtOnce is how many the daemon hands on at once.
const offersAtOnce = 1024

// learn offers both directions of connections, as they come, with part of a
// sweep between.
func learn(tb testing.TB, s *Service, f *fake, from, to int) (offers, parts int) {
	var list []state.PassedFlow
	for n := from; n < to; n++ {
		c := numbered(n)
		f.track(c)
		list = append(list, f.passed(c, false), f.passed(c, true))
		if len(list) < offersAtOnce && n < to-1 {
			continue
		}
		if err := s.Offer(tb.Context(), list, 0); err != nil || s.Err() != nil {
			tb.Fatal(err, s.Err())
		}
		if _, err := s.Sweep(tb.Context(), time.Second); err != nil {
			tb.Fatal(err)
		}
		list = list[:0]
		offers++
		parts++
	}
	return offers, parts
}

// Questions to the kernel and writes are made for many flows at once, and no
// turn of the daemon's loop takes more than some thousands of them, however
// many flows there are.
func TestManyFlowsTakeFewCalls(t *testing.T) {
	const many = 60000
	s, f := newTest()
	offers, parts := learn(t, s, f, 0, many)
	if got := s.Status(0).Connections; got != many || len(f.flows) != 2*many {
		t.Fatalf("%d connections and %d flows of %d connections", got, len(f.flows), many)
	}
	// of an offer: connections, ways, keep and put; of a part of a sweep: flows,
	// strays, keep
	if limit := 4*offers + 3*parts; f.calls > limit {
		t.Errorf("%d calls for %d flows, more than %d", f.calls, 2*many, limit)
	}

	// all are in use, and are offered again
	f.calls, f.kept = 0, nil
	turns := 0
	sweepOnce := func(now time.Duration) {
		t.Helper()
		for more := true; more; turns++ {
			var err error
			if more, err = s.Sweep(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweepOnce(time.Second) // what learn had begun
	f.kept, f.given, f.asked = nil, 0, 0
	sweepOnce(2 * time.Second)
	if f.given != 0 || f.asked != 0 || len(f.kept) != 0 {
		t.Errorf("all are in use and none is due: %d flows were given, %d asked for, %d connections kept", f.given, f.asked, len(f.kept))
	}
	sweepOnce(20 * time.Minute)
	if len(f.kept) != many || f.asked != 2*many {
		t.Errorf("%d of %d connections were kept, and %d flows asked for", len(f.kept), many, f.asked)
	}
	f.asked = 0
	if sweepOnce(21 * time.Minute); f.asked != 0 {
		t.Errorf("%d flows were asked for, so soon", f.asked)
	}
	if f.calls > 4*turns {
		t.Errorf("%d calls in %d parts of sweeps", f.calls, turns)
	}

	// half of them end
	f.calls = 0
	var ended []state.Connection
	for n := range many / 2 {
		c := numbered(2 * n)
		f.forget(c)
		ended = append(ended, c)
	}
	if err := s.Ended(ended...); err != nil || f.calls > 2 {
		t.Errorf("%d calls for connections that ended (%v)", f.calls, err)
	}
	if len(f.flows) != many {
		t.Errorf("%d flows of %d connections", len(f.flows), many/2)
	}
	f.most = 0

	// the rest is idle: both directions of it go back, some at a time
	f.idle = time.Hour
	sweepOnce(40 * time.Minute)
	if got := s.Status(0).Connections; got != 0 || len(f.flows) != 0 {
		t.Errorf("%d connections and %d flows are idle and still there", got, len(f.flows))
	}
	if f.most > 2*sweepAtOnce {
		t.Errorf("one call was for %d flows", f.most)
	}
}

// Connections that come and go while a sweep is on its way: it misses none
// that is idle, and takes none that is new.
func TestSweepWhileOthersComeAndGo(t *testing.T) {
	const first, all = 10000, 12000
	s, f := newTest()
	learn(t, s, f, 0, first)
	if err := sweepAll(t.Context(), s, time.Second); err != nil {
		t.Fatal(err)
	}
	f.idle = time.Hour
	for turn, more := 0, true; more; turn++ {
		var err error
		if more, err = s.Sweep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if turn < 20 { // those that come are behind what was looked at, or were not
			n := first + turn*100
			for ; n < first+(turn+1)*100; n++ {
				c := numbered(n)
				f.track(c)
				offer(t, s, f.passed(c, false), f.passed(c, true))
			}
			if err := s.Ended(numbered(turn), numbered(first-1-turn)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range first {
		if _, there := f.flows[state.FlowKey{Interface: lanIndex, Tuple: numbered(n).Orig}]; there {
			t.Fatalf("connection %d is idle and still there", n)
		}
	}
	for n := first; n < all; n++ {
		if _, there := f.flows[state.FlowKey{Interface: wanIndex, Tuple: numbered(n).Reply}]; !there {
			t.Fatalf("connection %d is new and was taken back", n)
		}
	}
	if got := s.Status(0).Connections; got != all-first {
		t.Errorf("%d connections of %d", got, all-first)
	}
}

func BenchmarkLearn(b *testing.B) {
	s, f := newTest()
	for n := 0; b.Loop(); n += offersAtOnce {
		learn(b, s, f, n, n+offersAtOnce)
	}
	b.ReportMetric(float64(len(f.flows))/b.Elapsed().Seconds(), "flows/s")
}
