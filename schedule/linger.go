package schedule

// Linger is what Linux MPTCP does since 5.10 unless told otherwise.
//
// Paper: none; net/mptcp/protocol.c, mptcp_subflow_get_send, whose comment refers
// to BLEST's idea of looking at how long what is queued will take.
//
// Objective: each packet goes where the queue is drained first.
//
// Assumptions: a path's rate is its window over its round trip (the kernel's
// pacing rate is a multiple of it).
//
// Chosen here: the kernel hands data to a subflow ahead of its window; here a
// path without room is not considered, which comes to the same as long as all
// paths have more to send than their windows hold.
type Linger struct{}

// Path implements Router.
func (Linger) Path(v *View, _ *Stream) (Decision, bool) {
	best, least := -1, int64(0)
	for i := range v.Paths {
		p := &v.Paths[i]
		if !p.Room(v.MSS) {
			continue
		}
		linger := mulDiv(p.InFlight, int64(p.RTT), max(p.Window, 1))
		if best < 0 || linger < least || linger == least && p.RTT < v.Paths[best].RTT {
			best, least = i, linger
		}
	}
	if best < 0 {
		return Decision{}, false
	}
	return Decision{Paths: Only(best)}, true
}
