package schedule

// Fair gives every stream its share of bytes, in proportion to weights.
//
// Paper: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queueing: A Scheduling
// Algorithm for Integrated Services Packet Switching Networks", IEEE/ACM ToN
// 5(5), 1997.
//
// Objective: over any time in which two streams both have something to send,
// their bytes divided by their weights differ by two packets at most.
//
// Assumptions: none about the rate of the paths: it may vary.
//
// Chosen here: Stream.Note is the start tag of the stream's next packet. A
// stream that is new has none and so goes first, and begins at the tag served
// last, so that it cannot claim the past. A sender that takes a stream out of
// the View and puts it back must set its Note to 0.
type Fair struct {
	virtual int64 // the tag served last, never 0 once there is one
}

// fairScale keeps the shares of large weights apart: tags count 1/fairScale bytes.
const fairScale = 1 << 10

// Stream implements Order.
func (f *Fair) Stream(v *View) int {
	streams := v.Streams
	best, least := 0, streams[0].Note
	for i := range streams {
		if tag := streams[i].Note; tag < least {
			best, least = i, tag
		}
	}
	return best
}

// Served implements Order.
func (f *Fair) Served(s *Stream, bytes int64) {
	f.virtual = max(f.virtual, s.Note, 1)
	if s.Note == 0 {
		s.Note = f.virtual
	}
	s.Note += bytes * fairScale / int64(max(s.Weight, 1))
}
