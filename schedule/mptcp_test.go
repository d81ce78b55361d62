package schedule

import "testing"

func TestMPTCPSendsTheSecondBurstOnTheOtherPathAtOnce(t *testing.T) {
	v := view(100, path(20, 30, 0), path(100, 30, 0))
	s := must(t, "mptcp")
	var sent [2]int64
	for range 100 {
		d, ok := s.Next(v)
		if !ok {
			break
		}
		p := d.Paths.First()
		if p == 1 && sent[1] == 0 && (d.Skip != 35*mss || sent[0] != 30*mss) {
			t.Errorf("the slow path begins with a skip of %d after %d bytes on the fast one, want 35 packets after a window of 30", d.Skip, sent[0])
		}
		sent[p] += mss
		v.Paths[p].InFlight += mss
		v.Streams[0].Remaining -= mss
	}
	if sent != [2]int64{30 * mss, 30 * mss} {
		t.Errorf("sent %v", sent)
	}
}

// As the kernel was seen to do: with rates of 3.6 and 0.84 MB/s, and a third
// burst when the first two are queued.
func TestMPTCPHandsBurstsToWhatDrainsFirst(t *testing.T) {
	v := view(1000, path(20, 30, 0), path(100, 30, 0))
	v.Ahead = true
	v.Paths[0].Pacing, v.Paths[1].Pacing = 3_607_388, 836_793
	s := must(t, "mptcp")
	for i, want := range []int{0, 1, 0} {
		d, ok := s.Next(v)
		if !ok || d.Paths != Only(want) || d.Burst != 65428 {
			t.Fatalf("burst %d: decided %+v, %t", i, d, ok)
		}
		v.Paths[want].Queued += 67120
	}
	v.Paths[0].Held = true // drains first, 134 kB at 3.6 MB/s, but is full
	if d, ok := s.Next(v); ok {
		t.Errorf("decided %+v although the path that drains first is full", d)
	}
	v.Paths[0].Down = true
	if d, ok := s.Next(v); !ok || d.Paths != Only(1) {
		t.Errorf("decided %+v, %t with only one path left", d, ok)
	}
}

func TestMPTCPRemembersRatesByBytes(t *testing.T) {
	v := view(1000, path(20, 30, 0))
	v.Ahead = true
	v.Paths[0].Pacing = 1_000_000
	s := &MPTCP{}
	s.Path(v, &v.Streams[0])
	v.Paths[0].Pacing, v.Paths[0].Queued = 2_000_000, 65428
	if s.Path(v, &v.Streams[0]); s.rates[0] != 1_500_000 {
		t.Errorf("the mean of 1 and 2 MB/s over equal bytes is %d", s.rates[0])
	}
}
