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
// Chosen here: the paths go through the same data, each at its own pace (the
// paper's and the kernel's form): a path carries data that others have sent and
// that is not acknowledged before it gets new data. Which path that is needs
// no decision, so the sender does it by itself for a Repeater.
type Redundant struct{}

// Path implements Router: new data goes on every path that has room, which has
// then nothing older to carry.
func (Redundant) Path(v *View, _ *Stream) (Decision, bool) {
	var set PathSet
	for i := range v.Paths {
		if v.Paths[i].Room(v.MSS) {
			set |= Only(i)
		}
	}
	return Decision{Paths: set}, set != 0
}
