package lnsrun

import (
	"math/rand/v2"
	"net/netip"
	"sync"

	"weft/wire/l2tp"
)

// What may wait at one socket. A storm of known peers, 30,000 sessions at once, fits.
const (
	waitingKnown = 16 << 20 // bytes, each datagram with waitingCost
	waitingCost  = 64
	waitingNew   = 256 // datagrams that are for no tunnel
)

// together is the largest number of waiting datagrams that are handled before their
// effects are carried out: in a storm the datapath gets sessions by the dozen. Of those
// for no tunnel they are few, so that a flood of these takes no time from the others.
const (
	together    = 64
	togetherNew = 8
)

// datagram is one that was received.
type datagram struct {
	from  netip.AddrPort
	bytes []byte
}

// inbox holds what has come to a socket. Its reader never waits: else a flood of requests
// for tunnels fills the socket's own buffer, and each message of the others waits behind
// thousands. Here requests wait apart, and no address has many of them.
type inbox struct {
	mu    sync.Mutex
	known []datagram
	bytes int
	fresh []datagram
	from  map[netip.Addr]int // in fresh
	wake  chan struct{}
	ended bool
}

func newInbox() *inbox { return &inbox{from: map[netip.Addr]int{}, wake: make(chan struct{}, 1)} }

// put takes a copy of a datagram, or drops it as the network may.
func (x *inbox) put(b []byte, from netip.AddrPort) {
	h, _, err := l2tp.Parse(b)
	if err != nil {
		h.Control, h.Tunnel = true, 0 // the engine counts it
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if h.Control && h.Tunnel == 0 {
		if !x.room(from.Addr()) {
			return
		}
		x.fresh = append(x.fresh, datagram{from, append([]byte(nil), b...)})
		x.from[from.Addr()]++
	} else {
		if x.bytes+len(b)+waitingCost > waitingKnown {
			return
		}
		x.known = append(x.known, datagram{from, append([]byte(nil), b...)})
		x.bytes += len(b) + waitingCost
	}
	x.signal()
}

// room makes room for a request of an address. If there is none, only an address of which
// none waits gets the place of another.
func (x *inbox) room(from netip.Addr) bool {
	if len(x.fresh) < waitingNew {
		return true
	}
	if x.from[from] > 0 {
		return false
	}
	i := rand.IntN(len(x.fresh))
	x.left(x.fresh[i].from.Addr())
	x.fresh = append(x.fresh[:i], x.fresh[i+1:]...)
	return true
}

func (x *inbox) left(from netip.Addr) {
	if x.from[from]--; x.from[from] <= 0 {
		delete(x.from, from)
	}
}

func (x *inbox) signal() {
	select {
	case x.wake <- struct{}{}:
	default: // it is awake
	}
}

// take waits for the next datagrams; none: the socket is closed, and nothing waits.
func (x *inbox) take() (batch []datagram) {
	for {
		x.mu.Lock()
		n := min(len(x.known), together)
		batch = append(batch, x.known[:n]...)
		for _, d := range batch {
			x.bytes -= len(d.bytes) + waitingCost
		}
		if x.known = x.known[n:]; len(x.known) == 0 {
			x.known = nil
		}
		n = min(len(x.fresh), togetherNew)
		for _, d := range x.fresh[:n] {
			batch = append(batch, d)
			x.left(d.from.Addr())
		}
		x.fresh = append(x.fresh[:0], x.fresh[n:]...)
		ended := x.ended
		x.mu.Unlock()
		if len(batch) > 0 || ended {
			return batch
		}
		<-x.wake
	}
}

// end says that nothing more comes.
func (x *inbox) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	x.signal()
}
