package simulate

// codel is the controlled delay queue of RFC 8289, section 5, with the control
// law in integers.
type codel struct {
	target, interval Time
	mtu              int64
	firstAbove       Time // 0 = the delay is below target
	dropNext         Time
	count, lastCount int64
	dropping         bool
}

// drops reports whether the packet just taken out of the queue, which waited so
// long and left so many bytes behind it, is to be dropped.
func (c *codel) drops(now, sojourn Time, behind int64) bool {
	above := c.above(now, sojourn, behind)
	if c.dropping {
		if !above {
			c.dropping = false
			return false
		}
		if now < c.dropNext {
			return false
		}
		c.count++
		c.dropNext = c.law(c.dropNext)
		return true
	}
	if !above {
		return false
	}
	c.dropping = true
	// Section 5.6: begin where the last episode ended, if that was lately.
	delta := c.count - c.lastCount
	if delta > 1 && now-c.dropNext < 16*c.interval {
		c.count = delta
	} else {
		c.count = 1
	}
	c.dropNext = c.law(now)
	c.lastCount = c.count
	return true
}

// above reports whether the delay was above target for an interval.
func (c *codel) above(now, sojourn Time, behind int64) bool {
	if sojourn < c.target || behind <= c.mtu {
		c.firstAbove = 0
		return false
	}
	if c.firstAbove == 0 {
		c.firstAbove = now + c.interval
		return false
	}
	return now >= c.firstAbove
}

// law returns t + interval/sqrt(count).
func (c *codel) law(t Time) Time {
	// root has 16 bits behind the point
	root := int64(wholeRoot(uint64(c.count) << 32))
	return t + Time(mulDiv(int64(c.interval), 1<<16, root))
}

// empty is what an empty queue means to CoDel.
func (c *codel) empty() {
	c.dropping = false
	c.firstAbove = 0
}

// wholeRoot returns the whole part of the square root, digit by digit.
func wholeRoot(x uint64) uint64 {
	var root uint64
	for bit := uint64(1) << 31; bit != 0; bit >>= 1 {
		if try := root | bit; try*try <= x {
			root = try
		}
	}
	return root
}
