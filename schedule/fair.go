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
// Chosen here: the stream's start tag is its first tag, kept in Stream.Note,
// plus what it has sent since, divided by its weight. A stream that comes in
// begins at the tag served last, so that it cannot claim the past. A sender
// that takes a stream out of the View and puts it back must set its Note to 0.
type Fair struct {
	virtual int64 // the tag served last
}

// fairScale keeps the shares of large weights apart: tags count 1/fairScale bytes.
const fairScale = 1 << 10

// Stream implements Order.
func (f *Fair) Stream(v *View) int {
	best, least := 0, int64(1<<63-1)
	streams := v.Streams
	for i := range streams {
		s := &streams[i]
		done := s.Sent
		if s.Weight > 1 {
			done = s.Sent * fairScale / int64(s.Weight)
		} else {
			done *= fairScale
		}
		if s.Note == 0 {
			// Tags relative to what was sent before the stream was seen. Never 0,
			// which would say new.
			s.Note = f.virtual - done
			if s.Note == 0 {
				s.Note = 1
			}
		}
		if tag := s.Note + done; tag < least {
			best, least = i, tag
		}
	}
	f.virtual = max(f.virtual, least)
	return best
}
