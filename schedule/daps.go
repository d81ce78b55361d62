package schedule

// DAPS sends ahead on slow paths what will be due when it gets there.
//
// Paper: N. Kuhn, E. Lochin, A. Mifdaoui, G. Sarwar, O. Mehani, R. Boreli,
// "DAPS: Intelligent Delay-Aware Packet Scheduling for Multipath Transport",
// ICC 2014.
//
// Objective: packets arrive in order although the paths' delays differ, so that
// the receiver holds little.
//
// Assumptions: delays and windows stay the same for a round of the slowest
// path; one way takes half of the round trip; a lot remains to be sent.
//
// Chosen here: the paper plans a round ahead, over the least common multiple of
// the delays. This is its fluid limit, evaluated again for each packet: while a
// packet travels on path i, each faster path j delivers Window_j/RTT_j times
// the difference of their delays, so that packet must carry what comes after
// that. Where the stream ends before, a slow path would finish last: wait.
type DAPS struct{}

// Path implements Router.
func (DAPS) Path(v *View, s *Stream) (Decision, bool) {
	best := fastest(v, v.MSS)
	if best < 0 {
		return Decision{}, false
	}
	own := v.Paths[best].RTT / 2
	ahead := int64(0)
	for i := range v.Paths {
		p := &v.Paths[i]
		if !p.Down && p.RTT/2 < own {
			ahead += mulDiv(p.Window, int64(own-p.RTT/2), int64(max(p.RTT, 1)))
		}
	}
	ahead -= ahead % v.MSS
	if ahead >= s.Remaining {
		return Decision{}, false
	}
	return Decision{Paths: Only(best), Skip: ahead}, true
}
