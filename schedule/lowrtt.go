package schedule

// LowRTT, the default scheduler of Linux MPTCP until 5.x and of most
// multipath QUIC implementations.
//
// Paper: C. Raiciu et al., "How Hard Can It Be? Designing and Implementing a
// Deployable Multipath TCP", NSDI 2012; compared with others in C. Paasch et
// al., "Experimental Evaluation of Multipath TCP Schedulers", CSWS 2014.
//
// Objective: each packet goes where it gets an answer soonest.
//
// Assumptions: round trips tell delays; a full window means the path has enough
// to do. It knows nothing of how much is left to send, which is why it lets the
// last packets of a transfer wait for a slow path.
//
// Chosen here: of paths with equal round trips the first; no penalising of slow
// paths and no opportunistic retransmission (the NSDI paper's remedies).
type LowRTT struct{}

// Path implements Router.
func (LowRTT) Path(v *View, _ *Stream) (Decision, bool) {
	p := fastest(v, v.MSS)
	if p < 0 {
		return Decision{}, false
	}
	return Decision{Paths: Only(p)}, true
}

// fastest returns the path of the shortest round trip with room for size more
// bytes, -1 if there is none.
func fastest(v *View, size int64) int {
	best := -1
	for i := range v.Paths {
		p := &v.Paths[i]
		if p.Room(size) && (best < 0 || p.RTT < v.Paths[best].RTT) {
			best = i
		}
	}
	return best
}

// quickest returns the path of the shortest round trip, full or not, -1 if all
// are down.
func quickest(v *View) int {
	best := -1
	for i := range v.Paths {
		p := &v.Paths[i]
		if !p.Down && (best < 0 || p.RTT < v.Paths[best].RTT) {
			best = i
		}
	}
	return best
}
