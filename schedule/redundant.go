package schedule

// Redundant sends every packet on each path that has room for it.
//
// Paper: A. Frömmgen, T. Erbshäußer, A. Buchmann, T. Zimmermann, K. Wehrle,
// "ReMP TCP: Low Latency Multipath TCP", ICC 2016.
//
// Objective: each packet arrives as soon as on the best path of that moment,
// paid for with bandwidth.
//
// Assumptions: little to send, and paths that do not share a bottleneck.
//
// Chosen here: a packet is sent as soon as one path has room, with copies on
// those that have room at that moment; a path that was full does not catch up
// on older packets (the paper's "redundant if no new data" does).
type Redundant struct{}

// Path implements Router.
func (Redundant) Path(v *View, _ *Stream) (Decision, bool) {
	var set PathSet
	for i := range v.Paths {
		if v.Paths[i].Room(v.MSS) {
			set |= Only(i)
		}
	}
	return Decision{Paths: set}, set != 0
}
