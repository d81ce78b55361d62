package l2tp

import (
	"time"

	"weft/wire/l2tp"
)

// Reliable delivery of control messages (RFC 2661 section 5.8).
const (
	retransmitFirst = time.Second
	retransmitMost  = 8 * time.Second
	retransmitTries = 6
	defaultWindow   = 4 // if the peer does not say (section 4.4.3)
	ownWindow       = 256
)

// channel numbers, repeats and acknowledges control messages. It is pure.
type channel struct {
	peer     uint16 // the tunnel's id at the peer
	ns       uint16 // of the next message
	nr       uint16 // of the next that is expected
	window   int    // of the peer
	opening  int    // congestion window (appendix A)
	thresh   int
	credit   int // acknowledgements since the congestion window grew
	sent     []message
	flying   int // of sent, the first so many are on their way; the rest was lost with them
	waiting  []message
	tries    int
	deadline time.Time
	owes     bool // an acknowledgement
	driven   bool // by the peer: this end repeats itself hardly
	restored bool // numbers come from a store, and may be a few behind
}

type message struct {
	ns      uint16
	session uint16
	body    []byte
}

func newChannel(peer uint16) channel {
	return channel{peer: peer, window: defaultWindow, opening: 1, thresh: defaultWindow}
}

// setWindow takes the peer's receive window; zero is not allowed.
func (c *channel) setWindow(n uint16) {
	if n > 0 {
		c.window, c.thresh = int(n), int(n)
	}
}

// push takes a message to send.
func (c *channel) push(session uint16, body []byte) {
	c.waiting = append(c.waiting, message{session: session, body: body})
}

// behind reports whether a comes before b in the circle of numbers.
func behind(a, b uint16) bool { return int16(a-b) < 0 }

// resyncMost is how far the numbers of a store may be behind the peer's.
const resyncMost = 128

// receive takes the header of a message, and tells whether its body is new.
func (c *channel) receive(h l2tp.Header, zlb bool, now time.Time) bool {
	if c.restored {
		c.resync(h, zlb)
	}
	c.acknowledged(h.Nr, now)
	if zlb {
		return false
	}
	if h.Ns == c.nr {
		c.nr++
		c.owes = true
		return true
	}
	// a duplicate is acknowledged again; what is ahead is dropped: the peer
	// sends it once more
	c.owes = true
	return false
}

// resync believes the peer where its numbers are a little ahead of ours:
// the daemon died before it could store what it had done.
func (c *channel) resync(h l2tp.Header, zlb bool) {
	if d := h.Nr - c.ns; d > 0 && d < resyncMost && len(c.sent) == 0 {
		c.ns = h.Nr
	}
	if d := h.Ns - c.nr; !zlb && d > 0 && d < resyncMost {
		c.nr = h.Ns
	}
	c.restored = false
}

func (c *channel) acknowledged(nr uint16, now time.Time) {
	if behind(c.ns, nr) {
		return // of what was never sent
	}
	n := 0
	for n < len(c.sent) && behind(c.sent[n].ns, nr) {
		n++
	}
	if n == 0 {
		return
	}
	c.sent = c.sent[n:]
	c.flying = max(c.flying-n, 0)
	c.tries = 0
	c.deadline = now.Add(retransmitFirst)
	for range n {
		if c.opening < c.thresh {
			c.opening++ // slow start
		} else if c.credit++; c.credit >= c.opening {
			c.opening, c.credit = c.opening+1, 0
		}
	}
	c.opening = min(c.opening, c.window)
	if len(c.sent) == 0 {
		c.sent = nil
	}
}

// flush gives what is to be sent now.
func (c *channel) flush(now time.Time, send func([]byte)) {
	may := min(c.opening, c.window)
	// what went out behind a message that was lost has been dropped by most
	// peers: it is sent again as the window opens, not each after a time of its own
	for ; c.flying < min(len(c.sent), may); c.flying++ {
		c.put(c.sent[c.flying], send)
	}
	for len(c.waiting) > 0 && len(c.sent) < may {
		m := c.waiting[0]
		c.waiting = c.waiting[1:]
		m.ns = c.ns
		c.ns++
		if len(c.sent) == 0 {
			c.deadline = now.Add(retransmitFirst)
		}
		c.sent = append(c.sent, m)
		c.flying++
		c.put(m, send)
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
	if c.owes {
		c.owes = false
		send(l2tp.Control{Tunnel: c.peer, Ns: c.ns, Nr: c.nr}.Marshal())
	}
}

func (c *channel) put(m message, send func([]byte)) {
	c.owes = false
	send(l2tp.Control{Tunnel: c.peer, Session: m.session, Ns: m.ns, Nr: c.nr, Body: m.body}.Marshal())
}

// due is when tick has something to do; zero: never.
func (c *channel) due() time.Time {
	if len(c.sent) == 0 {
		return time.Time{}
	}
	return c.deadline // zero: the peer is waited for
}

// again repeats the first message that waits for an acknowledgement, as the peer has
// repeated what it answers.
func (c *channel) again(send func([]byte)) {
	if c.flying > 0 {
		c.put(c.sent[0], send)
	}
}

// tick repeats what was not acknowledged; false: the peer is gone.
func (c *channel) tick(now time.Time, send func([]byte)) bool {
	if len(c.sent) == 0 || c.deadline.IsZero() || now.Before(c.deadline) {
		return true
	}
	if c.driven && c.tries >= unprovenTries {
		c.deadline = time.Time{}
		return true
	}
	if c.tries++; c.tries > retransmitTries {
		return false
	}
	c.thresh, c.opening, c.credit = max(c.opening/2, 1), 1, 0
	c.deadline = now.Add(min(retransmitFirst<<c.tries, retransmitMost))
	// one message finds out whether the peer is there; the rest follows its answer
	c.flying = 1
	c.put(c.sent[0], send)
	return true
}

// idle reports whether all that was pushed has arrived.
func (c *channel) idle() bool { return len(c.sent) == 0 && len(c.waiting) == 0 }
