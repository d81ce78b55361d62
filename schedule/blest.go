package schedule

import "time"

// BLEST waits for the fast path where a packet on the slow one would block it.
//
// Paper: S. Ferlin, O. Alay, O. Mehani, R. Boreli, "BLEST: Blocking
// Estimation-based MPTCP Scheduler for Heterogeneous Networks", IFIP
// Networking 2016.
//
// Objective: no head-of-line blocking: the receive window must not run out
// because a packet on the slow path is still missing.
//
// Assumptions: during one round trip of the slow path the fast one sends a
// window each of its own round trips, growing by one packet each time.
//
// Chosen here: the paper adjusts its correction factor lambda by how often
// blocking happened. Here, as in the authors' kernel code, it starts at 1.2 and
// stays within 1.0 and 1.3; it grows by 0.04 for a stall of the send window and
// shrinks by 0.01 for each round trip of the slow path without one. With no
// limit at the receiver BLEST is LowRTT.
type BLEST struct {
	lambda  int64 // thousandths; 0 = not begun
	stalls  uint64
	lowered time.Duration
}

const (
	blestStart = 1200
	blestMin   = 1000
	blestMax   = 1300
	blestUp    = 40
	blestDown  = 10
)

// Path implements Router.
func (b *BLEST) Path(v *View, _ *Stream) (Decision, bool) {
	slow, fast := fastest(v, v.MSS), quickest(v)
	if slow < 0 {
		return Decision{}, false
	}
	if slow == fast || v.Window == 0 {
		return Decision{Paths: Only(slow)}, true
	}
	s, f := &v.Paths[slow], &v.Paths[fast]
	b.adapt(v, s.RTT)
	// X = MSS (CWND_F + (rtt-1)/2) rtt, rtt = RTT_S/RTT_F in thousandths
	rtt := mulDiv(int64(s.RTT), 1000, int64(max(f.RTT, 1)))
	x := mulDiv(f.Window+mulDiv(v.MSS, max(0, rtt-1000), 2000), rtt, 1000)
	if mulDiv(x, b.lambda, 1000) > v.Window-s.InFlight-v.MSS {
		return Decision{}, false
	}
	return Decision{Paths: Only(slow)}, true
}

func (b *BLEST) adapt(v *View, rtt time.Duration) {
	switch {
	case b.lambda == 0:
		b.lambda, b.stalls, b.lowered = blestStart, v.Stalls, v.Now
	case v.Stalls != b.stalls:
		b.lambda = min(blestMax, b.lambda+blestUp)
		b.stalls, b.lowered = v.Stalls, v.Now
	case v.Now-b.lowered >= rtt:
		b.lambda = max(blestMin, b.lambda-blestDown)
		b.lowered = v.Now
	}
}
