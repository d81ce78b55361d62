package schedule

// Linger is what Linux MPTCP does since 5.10 unless told otherwise.
//
// Paper: none; net/mptcp/protocol.c, mptcp_subflow_get_send, whose comment refers
// to BLEST's idea of looking at how long what is queued will take.
//
// Objective: each burst of 64 KiB goes where what is queued drains first.
//
// Assumptions: a path's rate is its window over its round trip (the kernel's
// pacing rate is a multiple of it).
//
// Chosen here: the kernel hands bursts to subflows ahead of their windows. Here
// the plan of who carries which burst is kept, and a path with room is given the
// next packet of its first burst, Skip standing for the bursts before it. The
// plan is made no further than needed, and anew for another stream: MPTCP has
// only one.
type Linger struct {
	stream uint64
	plan   [lingerMost]burst
	n      int
}

type burst struct {
	path int
	left int64 // bytes
}

const (
	lingerBurst = 65428 // MPTCP_SEND_BURST_SIZE
	lingerMost  = 64
)

// Path implements Router.
func (l *Linger) Path(v *View, s *Stream) (Decision, bool) {
	if s.ID != l.stream || l.total() > s.Remaining || l.lost(v) {
		l.stream, l.n = s.ID, 0
	}
	for {
		var skip int64
		for i := range l.n {
			b := &l.plan[i]
			if v.Paths[b.path].Room(v.MSS) {
				d := Decision{Paths: Only(b.path), Skip: skip - skip%v.MSS}
				l.take(i, v.MSS)
				return d, true
			}
			skip += b.left
		}
		if !l.extend(v, s) {
			return Decision{}, false
		}
	}
}

// extend plans one more burst; it says false when all is planned.
func (l *Linger) extend(v *View, s *Stream) bool {
	rest := s.Remaining - l.total()
	if rest <= 0 || l.n == lingerMost {
		return false
	}
	best, least := -1, int64(0)
	for i := range v.Paths {
		p := &v.Paths[i]
		if p.Down {
			continue
		}
		queued := p.InFlight
		for _, b := range l.plan[:l.n] {
			if b.path == i {
				queued += b.left
			}
		}
		if linger := mulDiv(queued, int64(p.RTT), max(p.Window, 1)); best < 0 || linger < least {
			best, least = i, linger
		}
	}
	if best < 0 {
		return false
	}
	whole := max(1, lingerBurst/v.MSS) * v.MSS
	l.plan[l.n] = burst{best, min(rest, whole)}
	l.n++
	return true
}

// take counts a packet of burst i.
func (l *Linger) take(i int, bytes int64) {
	b := &l.plan[i]
	if b.left -= bytes; b.left <= 0 {
		copy(l.plan[i:l.n], l.plan[i+1:l.n])
		l.n--
	}
}

func (l *Linger) total() (sum int64) {
	for _, b := range l.plan[:l.n] {
		sum += b.left
	}
	return sum
}

// lost tells whether a path that has bursts cannot be used any more.
func (l *Linger) lost(v *View) bool {
	for _, b := range l.plan[:l.n] {
		if b.path >= len(v.Paths) || v.Paths[b.path].Down {
			return true
		}
	}
	return false
}
