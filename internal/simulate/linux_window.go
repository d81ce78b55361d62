package simulate

import (
	"weft/schedule"
)

// validate is tcp_cwnd_validate.
func (f *subflow) validate(p *path, flight int64, limited bool) {
	if p.sent.lo > f.usedTill || limited || !f.full && flight > f.mostOut {
		f.full, f.mostOut, f.usedTill = limited, flight, p.sent.hi-1
	}
}

// used is tcp_is_cwnd_limited: whether the window may grow.
func (f *subflow) used(slowStart bool, window int64) bool {
	return f.full || slowStart && window < 2*f.mostOut
}

// enlarge is tcp_check_space: while the application waits, a window that is not
// full makes the subflow's buffer twice what the window needs.
func (m *Simulation) enlarge(p *path) {
	v := &m.sender.view.Paths[p.index]
	if !m.kernel.blocked || v.InFlight+m.setup.MSS > v.Window {
		return
	}
	if want := min(2*kernelPacket*max(10, v.Window/m.setup.MSS), kernelMost); want > p.subflow.buffer {
		p.subflow.buffer = want
		m.syncBuffers()
	}
}

// setPacing is tcp_update_pacing_rate. CUBIC's packets are not paced, but the
// scheduler goes by the rate.
func (p *path) setPacing(v *schedule.Path) {
	if r := p.control.pace(); r > 0 {
		p.subflow.pacing = r
		return
	}
	percent := int64(120) // net.ipv4.tcp_pacing_ca_ratio
	if s, ok := p.control.(interface{ early() bool }); ok && s.early() {
		percent = 200 // tcp_pacing_ss_ratio
	}
	p.subflow.pacing = mulDiv(max(v.Window, v.InFlight)*percent/100, 1e9, int64(max(v.RTT, 1)))
}

// ackedLinux is the kernel's part of an acknowledgement, after loss detection.
// It says whether the window is congestion control's business now.
func (m *Simulation) ackedLinux(p *path, note *acked, advanced bool) bool {
	f := &p.subflow
	v := &m.sender.view.Paths[p.index]
	f.armed, f.probed = m.now, false
	note.kernel = true
	window := p.control.window()
	slow := false
	if s, ok := p.control.(interface{ slow() bool }); ok {
		slow = s.slow()
	}
	note.used = f.used(slow, window)
	if !f.prr.on {
		return true
	}
	f.prr.acked(note.bytes, v.InFlight, m.setup.MSS, advanced)
	if p.again.len() == 0 && p.sent.lo > f.prr.until {
		f.prr.on = false
	}
	return false
}
