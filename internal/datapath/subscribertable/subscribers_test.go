package subscribertable

import (
	"testing"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// A session that has ended passes nothing more from the moment in which it is retired,
// and what it has carried is there until it is removed.
func TestARetiredSessionCarriesNothingAndKeepsItsCounters(t *testing.T) {
	l := newLNS(t)
	for _, build := range datapathtest.Builds {
		l.put(l.alice)
		up := l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()))
		down := l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 72).Bytes())
		l.One(build, up)
		l.One(build, down)
		before := l.counters1(100)
		l.subscribers.Retire([]uint16{100, 999})
		for frame, want := range map[string]state.Outcome{string(up): state.PassL2tpUnknown, string(down): state.PassSubscriber} {
			if _, got := l.One(build, []byte(frame)); got != want {
				t.Errorf("%s: %v, want %v", build, got, want)
			}
		}
		if after := l.counters1(100); after != before || after.UpPackets == 0 || after.DownPackets == 0 {
			t.Errorf("%s: counted were %+v, and are %+v", build, before, after)
		}
		if err := l.subscribers.Remove(nil, []uint16{100}); err != nil {
			t.Fatal(err)
		}
	}
}

// Sessions out of a dense pool come and go without a call of the kernel, be it one at a
// time.
func TestSessionsOutOfAPoolCostNoCall(t *testing.T) {
	l := newLNS(t)
	s := l.subscribers
	d, own4, own6, n := s.d, s.own4, s.own6, s.n
	s.d, s.own4, s.own6, s.n = Of(&datapath.Datapath{}), nil, nil, nil // who calls the kernel now falls
	s.fresh = 0                                                        // as many steps as that one has carried out
	defer func() { s.d, s.own4, s.own6, s.n = d, own4, own6, n }()
	for range 2 {
		one, ids := state.L2TPSession{Tunnel: 17, MTU: 1400, IPv4: datapathtest.Addr("10.64.0.200")}, []uint16{}
		for id := range uint16(20) {
			one.Local, one.IPv4 = 300+id, one.IPv4.Next()
			ids = append(ids, one.Local)
			if err := s.Put(nil, []state.L2TPSession{one}); err != nil {
				t.Fatal(err)
			}
		}
		s.Retire(ids)
		if err := s.Remove(nil, ids); err != nil {
			t.Fatal(err)
		}
	}
}
