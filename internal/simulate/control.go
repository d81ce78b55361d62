package simulate

import (
	"fmt"
	"strings"
	"time"
)

// control is the congestion control of one path. Windows are in bytes of data.
type control interface {
	// acked processes newly acknowledged bytes.
	acked(a acked)
	// lost is called once for each congestion event: losses of packets sent before
	// the previous event belong to that one (RFC 9002 section 7.3.2).
	lost(now Time)
	// timeout is called when the path has stopped answering.
	timeout()
	// window returns how much may be in flight, at least one packet.
	window() int64
	// pace returns the rate at which to send, bytes a second, 0 for at once.
	pace() int64
}

// acked describes one acknowledgement.
type acked struct {
	now      Time
	bytes    int64         // newly acknowledged
	rtt      time.Duration // sample, 0 if it gave none
	smoothed time.Duration
	flight   int64 // in flight before it
	rate     int64 // delivery rate sample, bytes a second, 0 if none
	limited  bool  // the sample was taken when the sender had nothing to send
	round    bool  // the first one of a round trip
	kernel   bool  // the sender is Linux's, and used says whether the window was used
	used     bool
}

// Controls returns the names of the congestion controls.
func Controls() []string { return []string{"newreno", "cubic", "bbr", "lia", "olia"} }

// newControls makes one congestion control a path.
func newControls(name string, paths int, mss, initial int64, linux bool) ([]control, error) {
	all := make([]control, paths)
	group := &coupled{}
	for i := range all {
		w := &growth{mss: mss, cwnd: initial * mss * fine, threshold: maxWindow}
		w.start.kernel = linux
		switch name {
		case "newreno":
			all[i] = &newReno{growth: w}
		case "cubic":
			all[i] = &cubic{growth: w}
		case "bbr":
			all[i] = &bbr{mss: mss, initial: initial * mss, gain: bbrHigh, pacing: bbrHigh, least: never}
		case "lia", "olia":
			m := &member{growth: w, group: group, olia: name == "olia"}
			group.members = append(group.members, m)
			all[i] = m
		default:
			return nil, fmt.Errorf("no congestion control is called %q: there are %s", name, strings.Join(Controls(), ", "))
		}
	}
	return all, nil
}

const (
	// fine is the unit of windows that grow by less than a byte: 1/fine bytes.
	fine = 1 << 10
	// maxWindow is more than any window here, with room for arithmetic.
	maxWindow = int64(1) << 50
)

// growth is a window with slow start, in 1/fine bytes.
type growth struct {
	mss       int64 // bytes
	cwnd      int64 // 1/fine bytes
	threshold int64 // 1/fine bytes
	start     hystart
}

func (g *growth) window() int64 { return max(g.cwnd/fine, g.mss) }
func (g *growth) pace() int64   { return 0 }

// idle reports whether the window was not used, and so must not grow (RFC 7661
// section 4.3; the bounds are those of Linux's tcp_is_cwnd_limited).
func (g *growth) idle(a acked) bool {
	if a.kernel {
		return !a.used
	}
	if g.cwnd < g.threshold {
		return a.flight*2 < g.window()
	}
	return a.flight+2*g.mss < g.window()
}

// slow reports whether it is slow start, early whether the window is even less
// than half of the threshold.
func (g *growth) slow() bool  { return g.cwnd < g.threshold }
func (g *growth) early() bool { return g.cwnd < g.threshold/2 }

// slowStart grows the window in slow start (RFC 5681 section 3.1, with the byte
// counting of RFC 3465) and tells whether it was in it.
func (g *growth) slowStart(a acked) bool {
	if g.cwnd >= g.threshold {
		return false
	}
	g.cwnd = min(g.cwnd+g.start.scale(a.bytes)*fine, maxWindow)
	if g.start.done(a, g.cwnd/fine/g.mss) {
		g.threshold = g.cwnd
	}
	return true
}

// shrink sets window and threshold to so many tenths.
func (g *growth) shrink(tenths int64) {
	g.cwnd = max(g.cwnd*tenths/10, 2*g.mss*fine)
	g.threshold = g.cwnd
}

// collapse begins again with one packet (RFC 5681 equation 4).
func (g *growth) collapse() {
	g.threshold = max(g.cwnd/2, 2*g.mss*fine)
	g.cwnd = g.mss * fine
	g.start = hystart{on: g.start.on, kernel: g.start.kernel}
}

// newReno is RFC 5681 with byte counting; recovery is by packet numbers, which
// makes RFC 6582's care about partial acknowledgements unnecessary.
type newReno struct{ *growth }

func (n *newReno) acked(a acked) {
	if n.idle(a) || n.slowStart(a) {
		return
	}
	n.cwnd += mulDiv(n.mss*fine, a.bytes*fine, n.cwnd)
}

func (n *newReno) lost(Time) { n.shrink(5) }
func (n *newReno) timeout()  { n.collapse() }
