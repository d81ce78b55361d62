package schedule

import (
	"fmt"
	"slices"
	"time"
)

// The offline optimum: the yardstick that no scheduler can beat.
//
// Method: branch and bound (A. H. Land, A. G. Doig, Econometrica 28(3), 1960).
//
// Objective: the smallest sum of completion times of jobs that are known in
// advance, a job being complete when its last packet has arrived.
//
// Assumptions: each path sends one packet at a time, takes the same time for
// each, and delivers it a constant delay later; no losses, no windows.
//
// Why the search is exact: packets of a job are alike, and a packet that was
// sent on a path after an idle time can be sent at the beginning of it, or at
// its job's release if that is later, without any arrival becoming later. So a
// path that is free either sends a packet of some released job, or idles until
// the next release, or is never used again; all these are tried.
type Link struct {
	Packet time.Duration // to send one packet, > 0
	Delay  time.Duration // from having sent it to its arrival
}

// Job is a stream of the offline problem.
type Job struct {
	Release time.Duration // nothing of it can be sent earlier
	Packets int
}

// MaxOptimum is the largest number of packets that Optimum takes on.
const MaxOptimum = 40

// Optimum returns the smallest possible sum of the jobs' completion times, counted
// from time 0. The time it takes grows exponentially.
func Optimum(links []Link, jobs []Job) (time.Duration, error) {
	total := 0
	for _, j := range jobs {
		total += j.Packets
	}
	if len(links) == 0 || total > MaxOptimum {
		return 0, fmt.Errorf("find the optimum of %d packets on %d paths: it takes from 1 path and up to %d packets", total, len(links), MaxOptimum)
	}
	s := search{links: links, jobs: jobs, best: 1<<63 - 1, seen: map[string]struct{}{}}
	n := node{free: make([]time.Duration, len(links)), left: make([]int, len(jobs)), done: make([]time.Duration, len(jobs))}
	for i, j := range jobs {
		n.left[i] = j.Packets
		n.done[i] = j.Release
	}
	s.visit(n)
	return s.best, nil
}

type search struct {
	links []Link
	jobs  []Job
	best  time.Duration
	seen  map[string]struct{}
}

// node is a partial schedule: when each path is free (retired: at never), how
// many packets of each job are left, and when the last of those sent arrives.
type node struct {
	free []time.Duration
	left []int
	done []time.Duration
}

const never = time.Duration(1<<63 - 1)

func (s *search) visit(n node) {
	if s.bound(n) >= s.best {
		return
	}
	if !slices.ContainsFunc(n.left, func(k int) bool { return k > 0 }) {
		s.best = s.bound(n)
		return
	}
	key := fmt.Sprint(n)
	if _, ok := s.seen[key]; ok {
		return
	}
	s.seen[key] = struct{}{}
	p := 0
	for i := range n.free {
		if n.free[i] < n.free[p] {
			p = i
		}
	}
	if n.free[p] == never {
		return
	}
	s.send(n, p)
	s.idle(n, p)
}

// send tries a packet of each released job on path p, short jobs first, which
// finds good schedules early.
func (s *search) send(n node, p int) {
	order := make([]int, len(s.jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return n.left[a] - n.left[b] })
	for _, j := range order {
		if n.left[j] == 0 || s.jobs[j].Release > n.free[p] {
			continue
		}
		m := n.clone()
		m.left[j]--
		m.free[p] += s.links[p].Packet
		m.done[j] = max(m.done[j], m.free[p]+s.links[p].Delay)
		s.visit(m)
	}
}

// idle tries to leave path p alone until the next release, and for good.
func (s *search) idle(n node, p int) {
	next := never
	for j := range s.jobs {
		if r := s.jobs[j].Release; n.left[j] > 0 && r > n.free[p] {
			next = min(next, r)
		}
	}
	m := n.clone()
	m.free[p] = next
	s.visit(m)
	if next != never {
		m = n.clone()
		m.free[p] = never
		s.visit(m)
	}
}

func (n node) clone() node {
	return node{free: slices.Clone(n.free), left: slices.Clone(n.left), done: slices.Clone(n.done)}
}

// bound returns a sum that no completion of n can beat: the jobs take the
// earliest arrivals that the paths still offer, releases ignored, the job with
// the least left first. The k-th job to end cannot do so before as many
// arrivals as the k smallest jobs together need.
func (s *search) bound(n node) time.Duration {
	left := slices.Clone(n.left)
	var sum time.Duration
	for j := range left {
		if left[j] == 0 {
			sum += n.done[j]
		}
	}
	left = slices.DeleteFunc(left, func(k int) bool { return k == 0 })
	slices.Sort(left)
	free := slices.Clone(n.free)
	for _, k := range left {
		var at time.Duration
		for range k {
			p, arrival := 0, never
			for i := range free {
				if free[i] == never {
					continue
				}
				if a := free[i] + s.links[i].Packet + s.links[i].Delay; a < arrival {
					p, arrival = i, a
				}
			}
			if arrival == never {
				return never
			}
			free[p] += s.links[p].Packet
			at = arrival
		}
		sum += at
	}
	return sum
}
