package simulate

import "time"

// Timeouts and recovery as Linux has them.
const (
	// kernelTimeoutMin is TCP_RTO_MIN, which is also the least part of a timeout
	// beyond the smoothed round trip (tcp_rtt_estimator).
	kernelTimeoutMin = 200 * time.Millisecond
	// kernelProbeMin is TCP_TIMEOUT_MIN_US.
	kernelProbeMin = 2 * time.Millisecond
)

// reduction is Proportional Rate Reduction (RFC 6937, tcp_cwnd_reduction): what
// the window is while losses are repaired.
type reduction struct {
	on             bool
	delivered, out int64 // bytes since the begin
	prior, target  int64 // window before, and after
	window         int64
	until          uint64 // it is over when all packets up to this number are settled
}

func (r *reduction) begin(prior, target, flight, mss int64, until uint64) {
	*r = reduction{on: true, prior: max(prior, mss), target: target, until: until}
	r.window = flight + mss // "force a fast retransmit upon entering"
}

func (r *reduction) acked(bytes, flight, mss int64, advanced bool) {
	r.delivered += bytes
	var room int64
	if delta := r.target - flight; delta < 0 {
		room = mulDiv(r.target, r.delivered, r.prior) - r.out
	} else {
		room = max(r.delivered-r.out, bytes)
		if advanced {
			room += mss
		}
		room = min(room, delta)
	}
	if r.out == 0 {
		room = max(room, mss)
	}
	r.window = flight + max(0, room)
}

// timeoutLinux is the retransmission timeout (RFC 6298 with the kernel's
// minimum), doubled as often as it has struck.
func (p *path) timeoutLinux() Time {
	e := &p.estimate
	return (e.smoothed + max(4*e.variance, kernelTimeoutMin)) << min(p.backoff, 10)
}

// timerLinux returns when a path without answers is looked after: by a tail loss
// probe (RFC 8985 section 7.2, tcp_schedule_loss_probe) where none was sent yet
// and nothing is lost, else by a timeout.
func (m *Simulation) timerLinux(p *path) Time {
	f := &p.subflow
	timeout := p.timeoutLinux()
	if p.backoff > 0 || f.probed || f.prr.on {
		return wheel(f.armed, timeout)
	}
	probe := 2*p.estimate.smoothed + kernelProbeMin
	if v := &m.sender.view.Paths[p.index]; v.InFlight <= m.setup.MSS {
		probe = 2*p.estimate.smoothed + kernelTimeoutMin
	}
	return wheel(max(f.armed, p.lastSent), min(probe, timeout))
}

// struck is that timer.
func (m *Simulation) struck(p *path) {
	f := &p.subflow
	if p.backoff == 0 && !f.probed && !f.prr.on {
		f.probed, f.armed = true, m.now
		m.transmit(p, data{}, false)
		p.counts.Probes++
		return
	}
	p.backoff = min(p.backoff+1, 16)
	f.armed, f.prr.on = m.now, false
	if p.backoff == 1 {
		p.control.timeout()
	}
	p.recovery = m.now
	for n := p.sent.lo; n < p.sent.hi; n++ {
		if x := p.sent.at(n); x.open {
			m.lose(p, n, x)
		}
	}
	p.advance()
	m.showWindow(p)
	if p.backoff >= kernelStale {
		m.stale(p)
	}
	if p.again.len() == 0 {
		m.transmit(p, data{}, false) // only probes were under way
		p.counts.Probes++
	}
}

// stale moves what a path was handed to another one, if there is one, and lets
// nothing more be handed to it until it answers a probe
// (mptcp_pm_subflow_chk_stale, __mptcp_retransmit_pending_data).
func (m *Simulation) stale(p *path) {
	to := -1
	for i := range m.paths {
		if i != p.index && !m.sender.view.Paths[i].Down {
			to = i
			break
		}
	}
	if to < 0 {
		return
	}
	m.sender.view.Paths[p.index].Down = true
	f, other := &p.subflow, &m.paths[to].subflow
	for _, from := range []*ring[data]{&p.again, &f.assigned} {
		for from.len() > 0 {
			x := from.pop()
			if s := m.streams.find(x); s == nil || uint64(x.segment) < s.state.lo || *s.state.at(uint64(x.segment))&segAcked != 0 {
				continue
			}
			other.assigned.push(x)
			other.unsent += int64(x.bytes)
		}
	}
	f.unsent, f.lost = 0, 0
	m.flush(&m.paths[to])
}
