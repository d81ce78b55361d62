package schedule

import (
	"math/bits"
	"sort"
)

// memoryless is the part of an Order that does not count what it served.
type memoryless struct{}

func (memoryless) Served(*Stream, int64) {}

// Turns serves one packet of each stream in turn.
//
// Paper: J. Nagle, "On Packet Switches with Infinite Storage", RFC 970, 1985.
//
// Objective: no stream waits for another one's end.
//
// Assumptions: packets are of one size (Fair is for where they are not).
//
// Chosen here: the turn goes by ID after the stream served last, so that nothing
// needs to be remembered when streams come and go.
type Turns struct{ memoryless }

// Stream implements Order.
func (Turns) Stream(v *View) int {
	i := sort.Search(len(v.Streams), func(i int) bool { return v.Streams[i].ID > v.Last })
	if i == len(v.Streams) {
		return 0
	}
	return i
}

// FIFO serves streams in the order in which they came.
//
// Objective: none but the order. With one stream, all Orders are this one.
type FIFO struct{ memoryless }

// Stream implements Order.
func (FIFO) Stream(*View) int { return 0 }

// Shortest serves the stream with the least left to send.
//
// Paper: L. Schrage, "A Proof of the Optimality of the Shortest Remaining
// Processing Time Discipline", Operations Research 16(3), 1968; for streams on
// several paths the idea is in B. Jonglez, M. Heusse, B. Gaujal, "SRPT-ECF:
// challenging Round-Robin for stream-aware multipath scheduling", IFIP
// Networking 2020.
//
// Objective: the smallest mean completion time.
//
// Assumptions: the sender knows how much is left; on one path without losses
// the order is then optimal, on several it is a good rule.
//
// Chosen here: what counts is what is left to send, not what is left to be
// acknowledged. Equal streams are served in the order of arrival. Long streams
// can starve under overload.
type Shortest struct{ memoryless }

// Stream implements Order.
func (Shortest) Stream(v *View) int {
	streams := v.Streams
	best, least := 0, streams[0].Remaining
	for i := range streams {
		if r := streams[i].Remaining; r < least {
			best, least = i, r
		}
	}
	return best
}

// Priority serves the stream of the smallest priority number, among equals the
// one with the earliest deadline, among those the one that came first.
//
// Paper: C. L. Liu, J. W. Layland, "Scheduling Algorithms for Multiprogramming
// in a Hard-Real-Time Environment", Journal of the ACM 20(1), 1973 (deadlines).
//
// Objective: important streams behave as if they were alone; among equals, if
// any order meets all deadlines on one path, this one does.
//
// Assumptions: the numbers are honest.
//
// Chosen here: a stream without a deadline comes after those that have one. The
// answer is the same until a stream comes or goes, so where View.Changed tells of
// that, streams are looked through only then.
type Priority struct {
	memoryless
	changed uint64 // the View's, when best was found
	best    int
}

// Stream implements Order.
func (p *Priority) Stream(v *View) int {
	if v.Changed == 0 || v.Changed != p.changed {
		p.changed, p.best = v.Changed, mostUrgent(v.Streams)
	}
	return p.best
}

func mostUrgent(streams []Stream) int {
	best := 0
	high, low := urgency(&streams[0])
	for i := 1; i < len(streams); i++ {
		h, l := urgency(&streams[i])
		// a comparison of 128 bits without branches: streams are many
		_, less := bits.Sub64(l, low, 0)
		_, less = bits.Sub64(h, high, less)
		if less != 0 {
			best, high, low = i, h, l
		}
	}
	return best
}

// urgency returns what is smallest where a stream goes first: its priority before
// its deadline, one that is none being far away.
func urgency(s *Stream) (high, low uint64) {
	return uint64(int64(s.Priority) + 1<<31), uint64(s.Deadline) - 1
}
