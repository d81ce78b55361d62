package schedule

// MPTCP is the default of Linux MPTCP since 5.10; where this
// says linger, the kernel's source does.
//
// Paper: none; net/mptcp/protocol.c of Linux 6.18, mptcp_subflow_get_send, whose
// comment refers to BLEST's idea of looking at how long what is queued will take.
//
// Objective: each burst of 64 KiB goes where what is queued drains first.
//
// Assumptions: a path drains at its pacing rate, of which the kernel keeps a mean
// weighted by bytes.
//
// Chosen here: the kernel hands bursts to subflows ahead of their windows. Where
// the sender does that, too (View.Ahead), this is the kernel's rule. For a sender
// that hands out packets one by one, the plan of who would carry which burst is
// kept, and a path with room is given the next packet of its first burst, Skip
// standing for the bursts before it; a path's rate is then its window over its
// round trip. The plan is made no further than needed, and again for another
// stream: MPTCP has only one.
type MPTCP struct {
	rates  [MaxPaths]int64 // the kernel's avg_pacing_rate
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
func (l *MPTCP) Path(v *View, s *Stream) (Decision, bool) {
	if v.Ahead {
		return l.burst(v)
	}
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

// burst chooses as the kernel does: the path whose memory drains first, and if
// that has no room, none.
func (l *MPTCP) burst(v *View) (Decision, bool) {
	best, least := -1, int64(0)
	for i := range v.Paths {
		p := &v.Paths[i]
		if l.rates[i] == 0 {
			l.rates[i] = p.Pacing
		}
		if p.Down || l.rates[i] == 0 {
			continue
		}
		if linger := mulDiv(p.Queued, 1<<32, l.rates[i]); best < 0 || linger < least {
			best, least = i, linger
		}
	}
	if best < 0 || v.Paths[best].Held {
		return Decision{}, false
	}
	p := &v.Paths[best]
	both := p.Queued + lingerBurst
	l.rates[best] = mulDiv(l.rates[best], p.Queued, both) + mulDiv(p.Pacing, lingerBurst, both)
	return Decision{Paths: Only(best), Burst: lingerBurst}, true
}

// extend plans one more burst; it says false when all is planned.
func (l *MPTCP) extend(v *View, s *Stream) bool {
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
func (l *MPTCP) take(i int, bytes int64) {
	b := &l.plan[i]
	if b.left -= bytes; b.left <= 0 {
		copy(l.plan[i:l.n], l.plan[i+1:l.n])
		l.n--
	}
}

func (l *MPTCP) total() (sum int64) {
	for _, b := range l.plan[:l.n] {
		sum += b.left
	}
	return sum
}

// lost reports whether a path that has bursts cannot be used any more.
func (l *MPTCP) lost(v *View) bool {
	for _, b := range l.plan[:l.n] {
		if b.path >= len(v.Paths) || v.Paths[b.path].Down {
			return true
		}
	}
	return false
}
