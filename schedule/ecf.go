package schedule

// ECF, earliest completion first, uses a slow path only where the transfer ends
// sooner with it than by waiting for the fast one.
//
// Paper: Y. Lim, E. M. Nahum, D. Towsley, R. J. Gibbens, "ECF: An MPTCP Path
// Scheduler to Manage Heterogeneous Paths", CoNEXT 2017, algorithm 1.
//
// Objective: the completion time of what is in the send buffer.
//
// Assumptions: the send buffer holds all that is left; windows stay as they are
// for the rest of the transfer; a window takes a round trip.
//
// Chosen here: k, the paper's content of the send buffer, is the backlog of all
// streams. Beta is the paper's 0.25. Where the waiting was decided once, the
// flag stays set until the comparison says otherwise, also across streams.
type ECF struct {
	waiting bool
}

// Path implements Router.
func (e *ECF) Path(v *View, _ *Stream) (Decision, bool) {
	slow, fast := fastest(v, v.MSS), quickest(v)
	if slow < 0 {
		return Decision{}, false
	}
	if slow == fast {
		return Decision{Paths: Only(slow)}, true
	}
	s, f := &v.Paths[slow], &v.Paths[fast]
	k := v.Backlog
	margin := int64(max(f.RTTVar, s.RTTVar))
	// n RTT_F, n = 1 + k/CWND_F
	byFast := int64(f.RTT) + min(mulDiv(k, int64(f.RTT), max(f.Window, 1)), 1<<62)
	bySlow := int64(s.RTT) + margin
	if e.waiting {
		bySlow += bySlow / 4
	}
	if byFast >= bySlow {
		e.waiting = false
		return Decision{Paths: Only(slow)}, true
	}
	if mulDiv(k, int64(s.RTT), max(s.Window, 1)) >= 2*int64(f.RTT)+margin {
		e.waiting = true
		return Decision{}, false
	}
	return Decision{Paths: Only(slow)}, true
}
