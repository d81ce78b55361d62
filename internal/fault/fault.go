// Package fault names the moments between two changes that weft makes to the host,
// so that a test can end the process at each of them, as a kill or a loss of power
// would. Outside of tests nothing is set, and At does nothing.
package fault

import "sync/atomic"

// Point is a kind of moment.
type Point string

// The points, in the order of a start. Each is passed after what it names.
const (
	Begun           Point = "begun"            // the part of the start that is named is over
	StateDrafted    Point = "state drafted"    // the draft of a state file is written
	StateReplaced   Point = "state replaced"   // the draft has taken the file's place
	MapMade         Point = "map made"         // and filled
	MapPinned       Point = "map pinned"       // in the new directory
	MapsPlaced      Point = "maps placed"      // the new directory has taken the old one's place
	MapReplaced     Point = "map replaced"     // one map has taken the place of another
	DeviceMade      Point = "device made"      // or marked as weft's
	ProgramAttached Point = "program attached" // its link is not pinned
	LinkPinned      Point = "link pinned"
	LinkUpdated     Point = "link updated" // to another program; its pin still has the old name
	LinkRemoved     Point = "link removed"
	StepApplied     Point = "step applied" // of reconcile; several, if the kernel takes them together
	SeriesFinished  Point = "series finished"
	PinsRemoved     Point = "pins removed" // by unload; the run directory is there
)

// Points lists them all.
func Points() []Point {
	return []Point{
		Begun, StateDrafted, StateReplaced, MapMade, MapPinned, MapsPlaced, MapReplaced, DeviceMade,
		ProgramAttached, LinkPinned, LinkUpdated, LinkRemoved, StepApplied, SeriesFinished, PinsRemoved,
	}
}

// hook is the only state: what a test wants called, process-wide, because a kill is.
var hook atomic.Pointer[func(p Point, what string)]

// At is called when the process passes a point; what says more closely where it is.
func At(p Point, what string) {
	if h := hook.Load(); h != nil {
		(*h)(p, what)
	}
}

// Call has a test's function called at each point.
func Call(h func(p Point, what string)) { hook.Store(&h) }
