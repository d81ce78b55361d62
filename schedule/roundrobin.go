package schedule

// RoundRobin sends packets over the paths in turn.
//
// Paper: C. Paasch, S. Ferlin, O. Alay, O. Bonaventure, "Experimental
// Evaluation of Multipath TCP Schedulers", CSWS 2014 (there as baseline).
//
// Objective: equal numbers of packets on each path.
//
// Assumptions: the paths are alike.
//
// Chosen here: a path without room is passed over instead of waited for, so that
// bulk transfers fill every window, as the cited evaluation found.
type RoundRobin struct {
	last int
}

// Path implements Router.
func (r *RoundRobin) Path(v *View, _ *Stream) (Decision, bool) {
	n := len(v.Paths)
	for k := 1; k <= n; k++ {
		i := r.last + k
		for i >= n {
			i -= n
		}
		if v.Paths[i].Room(v.MSS) {
			r.last = i
			return Decision{Paths: Only(i)}, true
		}
	}
	return Decision{}, false
}

// WeightedRoundRobin sends packets over the paths in turn, on each in proportion
// to its weight, spread evenly.
//
// Paper: M. Katevenis, S. Sidiropoulos, C. Courcoubetis, "Weighted Round-Robin
// Cell Multiplexing in a General-Purpose ATM Switch Chip", IEEE JSAC 9(8), 1991.
//
// Objective: the configured shares, in the smoothest order.
//
// Assumptions: the weights are right, and do not change by the minute.
//
// Chosen here: the smooth variant known from nginx (each turn every path earns
// its weight, the richest is served and pays what all have earned). Without
// configured weights a path's estimated rate is its weight. Paths without room
// neither earn nor pay.
type WeightedRoundRobin struct {
	credit [MaxPaths]int64
}

// Path implements Router.
func (w *WeightedRoundRobin) Path(v *View, _ *Stream) (Decision, bool) {
	best, total := -1, int64(0)
	for i := range v.Paths {
		p := &v.Paths[i]
		if !p.Room(v.MSS) {
			continue
		}
		weight := weightOf(p)
		total += weight
		w.credit[i] += weight
		if best < 0 || w.credit[i] > w.credit[best] {
			best = i
		}
	}
	if best < 0 {
		return Decision{}, false
	}
	w.credit[best] -= total
	return Decision{Paths: Only(best)}, true
}

func weightOf(p *Path) int64 {
	if p.Weight > 0 {
		return int64(p.Weight)
	}
	return max(1, p.Rate)
}
