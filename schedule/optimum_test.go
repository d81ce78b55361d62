package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestOptimumOfCasesThatCanBeSeen(t *testing.T) {
	fast, slow := Link{Packet: 1, Delay: 0}, Link{Packet: 1, Delay: 10}
	tests := []struct {
		name  string
		links []Link
		jobs  []Job
		want  time.Duration
	}{
		{"one packet takes its time and the delay", []Link{{Packet: 2, Delay: 5}}, []Job{{Packets: 1}}, 7},
		{"a job without packets is complete at its release", []Link{fast}, []Job{{Release: 4}}, 4},
		{"nothing is sent before its release", []Link{fast}, []Job{{Release: 100, Packets: 2}}, 102},
		{"short jobs first on one path", []Link{fast}, []Job{{Packets: 5}, {Packets: 1}}, 1 + 6},
		{"a slow path is left alone when the fast one ends sooner", []Link{fast, slow}, []Job{{Packets: 10}}, 10},
		{"a slow path is used when it ends sooner", []Link{fast, slow}, []Job{{Packets: 20}}, 15},
		{"a short job that comes later overtakes", []Link{fast}, []Job{{Packets: 10}, {Release: 3, Packets: 1}}, 4 + 11},
		// the fast path (2 a packet) is worth being kept free for the packet
		// that comes at 1, while the other one goes by the slow path
		{"a path is kept free for who comes next", []Link{{Packet: 4, Delay: 0}, {Packet: 4, Delay: 1}}, []Job{{Packets: 1}, {Release: 1, Packets: 1}}, 4 + 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Optimum(tt.links, tt.jobs)
			if err != nil || got != tt.want {
				t.Errorf("optimum is %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

// naive tries to send each packet, in every order, on every path, at every tick.
// It shares no idea with the search that it checks.
func naive(links []Link, jobs []Job, horizon time.Duration) time.Duration {
	best := never
	left := make([]int, len(jobs))
	done := make([]time.Duration, len(jobs))
	free := make([]time.Duration, len(links))
	for i, j := range jobs {
		left[i], done[i] = j.Packets, j.Release
	}
	var at func(now time.Duration, link int)
	at = func(now time.Duration, link int) {
		var sum time.Duration
		for _, d := range done {
			sum += d
		}
		if slices.Max(left) == 0 {
			best = min(best, sum)
			return
		}
		if now > horizon || sum >= best {
			return
		}
		if link == len(links) {
			at(now+1, 0)
			return
		}
		at(now, link+1)
		if free[link] > now {
			return
		}
		for j := range jobs {
			if left[j] == 0 || jobs[j].Release > now {
				continue
			}
			oldFree, oldDone := free[link], done[j]
			left[j]--
			free[link] = now + links[link].Packet
			done[j] = max(done[j], free[link]+links[link].Delay)
			at(now, link+1)
			left[j]++
			free[link], done[j] = oldFree, oldDone
		}
	}
	at(0, 0)
	return best
}

func TestOptimumIsWhatTryingEverythingFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		links := make([]Link, 1+r.IntN(2))
		for i := range links {
			links[i] = Link{Packet: time.Duration(1 + r.IntN(3)), Delay: time.Duration(r.IntN(4))}
		}
		jobs := make([]Job, 1+r.IntN(2))
		for i := range jobs {
			jobs[i] = Job{Release: time.Duration(r.IntN(4)), Packets: 1 + r.IntN(2)}
		}
		got, err := Optimum(links, jobs)
		if err != nil {
			t.Fatal(err)
		}
		if want := naive(links, jobs, 15); got != want {
			t.Fatalf("optimum of %v on %v is %d, trying everything finds %d", jobs, links, got, want)
		}
	}
}

func TestOptimumRefusesWhatWouldTakeForever(t *testing.T) {
	if _, err := Optimum([]Link{{Packet: 1}}, []Job{{Packets: MaxOptimum + 1}}); err == nil {
		t.Error("no error for too many packets")
	}
	if _, err := Optimum(nil, []Job{{Packets: 1}}); err == nil {
		t.Error("no error without a path")
	}
}
