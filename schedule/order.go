package schedule

import "sort"

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
// Chosen here: a stream without a deadline comes after those that have one.
type Priority struct{ memoryless }

// Stream implements Order.
func (Priority) Stream(v *View) int {
	streams := v.Streams
	best, urgent, soonest := 0, streams[0].Priority, due(&streams[0])
	for i := range streams {
		s := &streams[i]
		if s.Priority > urgent {
			continue
		}
		if d := due(s); s.Priority < urgent || d < soonest {
			best, urgent, soonest = i, s.Priority, d
		}
	}
	return best
}

// due gives the deadline, one that is none being far away.
func due(s *Stream) uint64 { return uint64(s.Deadline) - 1 }
