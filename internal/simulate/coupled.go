package simulate

import "time"

// coupled are the windows of all paths of one connection, which together must
// not take more than one TCP connection on the best path would (RFC 6356).
type coupled struct{ members []*member }

// member is the window of one path, by LIA (RFC 6356) or OLIA (R. Khalili, N.
// Gast, M. Popovic, J.-Y. Le Boudec, "MPTCP is not Pareto-Optimal: Performance
// Issues and a Possible Solution", CoNEXT 2012; draft-khalili-mptcp-congestion-control-05).
type member struct {
	*growth
	group *coupled
	olia  bool
	rtt   time.Duration
	debt  float64 // what was too little to add or subtract, 1/fine bytes
	// OLIA: bytes acknowledged since the last loss, and between the two before
	since, between float64
}

func (m *member) acked(a acked) {
	m.rtt = a.smoothed
	m.since += float64(a.bytes)
	if m.idle(a) || m.slowStart(a) {
		return
	}
	var add float64
	if m.olia {
		add = m.growOLIA(float64(a.bytes))
	} else {
		add = m.growLIA(float64(a.bytes))
	}
	m.debt += product(add, fine)
	whole := int64(m.debt)
	m.debt -= float64(whole)
	m.cwnd = max(m.cwnd+whole, 2*m.mss*fine)
}

// growLIA returns the increase in bytes (RFC 6356 section 3):
// min(alpha bytes MSS / total, bytes MSS / window).
func (m *member) growLIA(bytes float64) float64 {
	var total, best, sum float64
	for _, o := range m.group.members {
		if o.rtt == 0 {
			continue
		}
		w, r := float64(o.window()), float64(o.rtt)
		total += w
		best = max(best, w/product(r, r))
		sum += w / r
	}
	// alpha = total max(w/rtt^2) / (sum w/rtt)^2, divided by total at once
	share := best / product(sum, sum)
	step := product(bytes, float64(m.mss))
	return min(product(step, share), step/float64(m.window()))
}

// growOLIA returns the increase in bytes: the window's part of an increase that
// compensates for different round trips, and alpha, which moves traffic from
// the largest windows to the best paths.
func (m *member) growOLIA(bytes float64) float64 {
	var sum float64
	for _, o := range m.group.members {
		if o.rtt > 0 {
			sum += float64(o.window()) / float64(o.rtt)
		}
	}
	w, r, mss := float64(m.window()), float64(m.rtt), float64(m.mss)
	increase := product(w/product(r, r)/product(sum, sum), product(bytes, mss))
	return increase + product(m.alpha(), product(bytes, mss))/w
}

// alpha is the draft's: 1/(n |B\M|) for the best paths that have not the largest
// windows, -1/(n |M|) for those that have while such best paths exist, else 0.
func (m *member) alpha() float64 {
	var widest int64
	var best float64
	for _, o := range m.group.members {
		widest = max(widest, o.window())
		best = max(best, o.quality())
	}
	n, collected, largest := 0, 0, 0
	for _, o := range m.group.members {
		if o.rtt == 0 {
			continue
		}
		n++
		switch {
		case o.window() == widest:
			largest++
		case o.quality() == best:
			collected++
		}
	}
	switch {
	case collected == 0:
		return 0
	case m.window() == widest:
		return -1 / product(float64(n), float64(largest))
	case m.quality() == best:
		return 1 / product(float64(n), float64(collected))
	}
	return 0
}

// quality is the draft's l_p^2 / rtt_p.
func (m *member) quality() float64 {
	if m.rtt == 0 {
		return 0
	}
	l := max(m.since, m.between)
	return product(l, l) / float64(m.rtt)
}

func (m *member) lost(Time) {
	m.between, m.since, m.debt = m.since, 0, 0
	m.shrink(5)
}

func (m *member) timeout() {
	m.between, m.since, m.debt = m.since, 0, 0
	m.collapse()
}

// product is a*b, never fused with a sum around it.
func product(a, b float64) float64 { return float64(a * b) }
