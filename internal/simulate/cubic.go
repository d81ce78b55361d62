package simulate

import "time"

// cubic is RFC 9438, with HyStart++ (RFC 9406), in integers: times in
// milliseconds, as the kernel does it.
type cubic struct {
	*growth
	begun bool
	epoch Time
	k     int64 // milliseconds
	max   int64 // W_max, 1/fine bytes
	prior int64 // window before the last reduction, 1/fine bytes
	reno  int64 // W_est, 1/fine bytes

}

const cubicBeta = 7 // tenths

func (c *cubic) acked(a acked) {
	c.start.on = true
	if c.idle(a) || c.slowStart(a) {
		return
	}
	if !c.begun {
		c.begin(a.now)
	}
	c.friend(a.bytes)
	t := int64((a.now - c.epoch) / 1e6)
	if w := c.at(t); w < c.reno {
		c.cwnd = max(c.cwnd, c.reno) // section 4.3
		return
	}
	// Section 4.4 and 4.5: towards where the curve is a round trip later, at
	// most half the window more.
	target := min(max(c.at(t+int64(a.smoothed/1e6)), c.cwnd), c.cwnd*3/2)
	if a.kernel && c.prior == 0 {
		// without a loss so far the kernel grows by a packet in 20 at least (bictcp_update)
		target = max(target, c.cwnd+c.cwnd/20)
	}
	c.cwnd = min(c.cwnd+mulDiv(target-c.cwnd, a.bytes*fine, c.cwnd), maxWindow)
}

// begin starts an epoch of congestion avoidance (section 4.2).
func (c *cubic) begin(now Time) {
	c.begun, c.epoch = true, now
	if c.max < c.cwnd {
		c.max, c.k = c.cwnd, 0 // after a slow start without loss
	} else {
		// K = cbrt((W_max - cwnd) / C) in seconds, C = 0.4 packets
		x := mulDiv((c.max-c.cwnd)/fine, 1e10, 4*c.mss)
		c.k = int64(cubeRoot(uint64(x)))
	}
	c.reno = c.cwnd
}

// at returns W_cubic(t) (figure 1 of the RFC), t in milliseconds of the epoch.
func (c *cubic) at(t int64) int64 {
	const far = 1_000_000 // beyond it the curve is above any window
	d := min(max(t-c.k, -far), far)
	if d < 0 {
		return max(0, c.max-mulDiv(-d*d*d, 4*c.mss*fine, 1e10))
	}
	return min(c.max+mulDiv(d*d*d, 4*c.mss*fine, 1e10), maxWindow)
}

// friend grows W_est, what Reno would have (section 4.3): alpha is 9/17 of a
// packet a round trip until the window before the loss is reached, then 1.
func (c *cubic) friend(bytes int64) {
	add := mulDiv(c.mss*fine, bytes*fine, c.cwnd)
	if c.reno < c.prior {
		add = add * 9 / 17
	}
	c.reno += add
}

// resumed takes the time in which there was nothing to send out of the epoch
// (section 5.8).
func (c *cubic) resumed(idle time.Duration) {
	if c.begun {
		c.epoch += idle
	}
}

func (c *cubic) lost(Time) {
	c.prior = c.cwnd
	if c.cwnd < c.max { // fast convergence, section 4.7
		c.max = c.cwnd * (10 + cubicBeta) / 20
	} else {
		c.max = c.cwnd
	}
	c.shrink(cubicBeta)
	c.begun = false
}

func (c *cubic) timeout() {
	c.prior, c.max = c.cwnd, c.cwnd
	c.begun = false
	c.collapse()
	c.threshold = max(c.prior*cubicBeta/10, 2*c.mss*fine) // section 4.8
}
