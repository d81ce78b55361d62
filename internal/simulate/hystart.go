package simulate

import "time"

// hystart is HyStart++ (RFC 9406): slow start ends when round trips grow, before
// the queue overflows.
type hystart struct {
	on               bool
	last, current    time.Duration // smallest round trips of two rounds; 0 = none
	samples          int
	baseline         time.Duration // of conservative slow start; 0 = not in it
	conservativeLeft int
	kernel           bool // as Linux has it
	train            train
}

const (
	hystartMin     = 4 * time.Millisecond
	hystartMax     = 16 * time.Millisecond
	hystartSamples = 8
	hystartDivisor = 4
	hystartRounds  = 5
)

// scale returns what so many acknowledged bytes add to the window.
func (h *hystart) scale(bytes int64) int64 {
	if h.baseline != 0 {
		return bytes / hystartDivisor
	}
	return bytes
}

// done looks at a sample and tells whether slow start is over.
// packets is the window.
func (h *hystart) done(a acked, packets int64) bool {
	if !h.on {
		return false
	}
	if h.kernel {
		return h.train.done(a, packets)
	}
	if a.round {
		h.last, h.current, h.samples = h.current, 0, 0
		if h.baseline != 0 {
			if h.conservativeLeft--; h.conservativeLeft == 0 {
				return true
			}
		}
	}
	if a.rtt == 0 {
		return false
	}
	if h.current == 0 || a.rtt < h.current {
		h.current = a.rtt
	}
	h.samples++
	if h.samples < hystartSamples || h.last == 0 {
		return false
	}
	margin := min(max(h.last/8, hystartMin), hystartMax)
	switch {
	case h.baseline == 0 && h.current >= h.last+margin:
		h.baseline, h.conservativeLeft = h.current, hystartRounds
	case h.baseline != 0 && h.current < h.baseline:
		h.baseline = 0
	}
	return false
}

// train is HyStart of Linux 6.18 (net/ipv4/tcp_cubic.c, hystart_update; S. Ha, I.
// Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55(9),
// 2011): slow start ends where the acknowledgements of one round follow each other
// closely for half of the shortest round trip, or where round trips have grown.
type train struct {
	begin, last Time
	least       time.Duration // shortest round trip of the connection
	current     time.Duration // of this round
	samples     int
}

const (
	trainWindow = 16                   // packets (hystart_low_window)
	trainGap    = 2 * time.Millisecond // hystart_ack_delta_us
	trainDelay  = time.Millisecond     // hystart_ack_delay at rates below 260 MB/s
)

func (t *train) done(a acked, packets int64) bool {
	if a.rtt == 0 {
		return false
	}
	if t.least == 0 || a.rtt < t.least {
		t.least = a.rtt
	}
	if a.round {
		t.begin, t.last, t.current, t.samples = a.now, a.now, 0, 0
	}
	if packets < trainWindow {
		return false
	}
	if a.now-t.last <= trainGap {
		t.last = a.now
		if a.now-t.begin > (t.least+trainDelay)/2 {
			return true
		}
	}
	if t.current == 0 || a.rtt < t.current {
		t.current = a.rtt
	}
	if t.samples++; t.samples <= hystartSamples {
		return false
	}
	return t.current > t.least+min(max(t.least/8, hystartMin), hystartMax)
}
