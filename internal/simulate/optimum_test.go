package simulate

import (
	"math/rand/v2"
	"testing"

	"weft/schedule"
)

// No scheduler beats the offline optimum of the same paths and streams, and the
// best of them come near.
func TestNoSchedulerBeatsTheOptimum(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 4))
	best := map[string]float64{}
	const cases = 30
	for range cases {
		s := Setup{Scheduler: "lowrtt", Congestion: "newreno", MSS: 1250, InitialWindow: 3, AckEvery: 1}
		var links []schedule.Link
		for range 2 {
			rate := []int64{1e6, 2e6, 5e6, 10e6}[r.IntN(4)]
			delay := Time(1+r.IntN(20)) * ms
			links = append(links, schedule.Link{Packet: serviceTime(1250, rate), Delay: delay})
			s.Paths = append(s.Paths, PathSetup{Rate: rate, Delay: delay, Back: delay, Queue: 1 << 30})
		}
		var jobs []schedule.Job
		for range 3 {
			j := schedule.Job{Release: Time(r.IntN(20)) * ms, Packets: 1 + r.IntN(4)}
			jobs = append(jobs, j)
			s.Sources = append(s.Sources, Source{First: j.Release, Count: 1, Size: int64(j.Packets) * 1250})
		}
		optimum, err := schedule.Optimum(links, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"lowrtt", "roundrobin", "redundant", "daps", "ecf", "blest", "mptcp", "shortest", "shortest+ecf", "fifo", "fair", "priority"} {
			s.Scheduler = name
			var sum Time
			for i, src := range run(t, s).Sources {
				sum += src.Complete.Max + jobs[i].Release
			}
			if sum < optimum {
				t.Errorf("%s needs %s, the optimum %s: %v on %v", name, sum, optimum, jobs, links)
			}
			best[name] += float64(sum) / float64(optimum) / cases
		}
	}
	t.Logf("completion times as multiples of the optimum: %.3v", best)
}
