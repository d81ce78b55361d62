package l2tp

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"weft/internal/limit"
)

// A peer that has sent an SCCRQ has not proven anything: its address may be another's. It
// proves that it receives at that address, and knows the secret if there is one, with its
// SCCCN (RFC 2661 sections 5.1 and 5.8). Until then its tunnel ends no other one, and
// what it costs is bounded.
const (
	unprovenMost     = 1024 // tunnels of all peers
	unprovenPeerMost = 128  // of one address
	// An SCCRP is sent so many times again by this end's own clock. Each repeated SCCRQ is
	// answered with it too: the peer's clock drives the rest.
	unprovenTries = 1
	// replies that wait for a peer that does not acknowledge
	unprovenWaiting = 8
	waitingMost     = 4096
)

// refusals bounds the answers to those who get no tunnel: they may be forged.
var refusals = limit.Rate{PerSecond: 10, Burst: 50}

// unproven are the tunnels whose peers have not proven themselves, by address. It finds
// the oldest one of the address that has most at once.
type unproven struct {
	peers map[netip.Addr]*unprovenPeer
	// by how many tunnels they have; first the one that has had as many for longest
	levels [unprovenPeerMost + 1]list.List
	top    int // no level above it has any
	count  int
}

type unprovenPeer struct {
	addr    netip.Addr
	tunnels []*Tunnel // oldest first
	level   int       // in which it stands
	at      *list.Element
}

// add notes a tunnel; it gives one that has to make room, or nil.
func (u *unproven) add(t *Tunnel) (victim *Tunnel) {
	p := u.peers[t.peer.Addr()]
	switch {
	case p != nil && len(p.tunnels) >= unprovenPeerMost:
		victim = p.tunnels[0]
	case u.count >= unprovenMost:
		for u.levels[u.top].Len() == 0 {
			u.top--
		}
		victim = u.levels[u.top].Front().Value.(*unprovenPeer).tunnels[0]
	}
	if victim != nil {
		u.remove(victim)
	}
	if p = u.peers[t.peer.Addr()]; p == nil {
		p = &unprovenPeer{addr: t.peer.Addr()}
		u.peers[p.addr] = p
	}
	u.count++
	t.isUnproven = true
	u.move(p, append(p.tunnels, t))
	return victim
}

// remove forgets a tunnel that has proven itself, or is gone.
func (u *unproven) remove(t *Tunnel) {
	p := u.peers[t.peer.Addr()]
	if !t.isUnproven || p == nil {
		return
	}
	t.isUnproven = false
	u.count--
	u.move(p, slices.DeleteFunc(p.tunnels, func(o *Tunnel) bool { return o == t }))
}

// move puts a peer to the level of what it has now.
func (u *unproven) move(p *unprovenPeer, has []*Tunnel) {
	if p.at != nil {
		u.levels[p.level].Remove(p.at)
	}
	p.tunnels, p.level = has, len(has)
	if len(has) == 0 {
		delete(u.peers, p.addr)
		return
	}
	p.at = u.levels[len(has)].PushBack(p)
	u.top = max(u.top, len(has))
}

// mayRefuse reports whether one more answer to a stranger is sent.
func (e *Endpoint) mayRefuse() bool { return e.refused.Take(1, refusals, e.clock.Now()) }

// discard forgets a tunnel that its peer never confirmed. Nothing is sent: nothing stands
// at the peer, or it is not the one that asked.
func (t *Tunnel) discard() {
	t.endpoint.stats.Discarded++
	t.remove()
	t.down("the tunnel was not set up in time")
}

// crowded reports whether no more replies may wait: the peer does not acknowledge.
func (t *Tunnel) crowded() bool {
	if t.isUnproven {
		return len(t.channel.waiting) >= unprovenWaiting
	}
	return len(t.channel.waiting) >= waitingMost
}

// proven: the peer has confirmed the tunnel. What it had with the same id before it has
// forgotten, and a tunnel that this end asked for is not needed if its own has won
// (section 4.4.3).
func (t *Tunnel) proven() {
	e := t.endpoint
	e.unproven.remove(t)
	t.channel.driven = false
	if t.initiator {
		return
	}
	for _, old := range slices.Clone(e.byPeer[t.key()]) {
		if old != t {
			old.abandon("the peer has restarted")
		}
	}
	for _, lost := range t.beats {
		if lost.state == WaitReply {
			lost.remove()
			lost.down("the server has asked for a tunnel itself")
		}
	}
	t.beats = nil
}

// key is what the peer knows the tunnel by.
func (t *Tunnel) key() peerKey { return peerKey{t.peer, t.channel.peer} }

// index and unindex keep byPeer: the tunnels that a peer asked for with an id. More than
// one while the peer has not proven that it began again.
func (e *Endpoint) index(t *Tunnel) { e.byPeer[t.key()] = append(e.byPeer[t.key()], t) }

func (e *Endpoint) unindex(t *Tunnel) {
	rest := slices.DeleteFunc(e.byPeer[t.key()], func(o *Tunnel) bool { return o == t })
	if e.byPeer[t.key()] = rest; len(rest) == 0 {
		delete(e.byPeer, t.key())
	}
}

// repeated finds the tunnel that a first message has made already: the message is a copy.
func (e *Endpoint) repeated(key peerKey, sum [32]byte, now time.Time) *Tunnel {
	for _, t := range e.byPeer[key] {
		if t.first == sum && !t.restarted(now) {
			return t
		}
	}
	return nil
}
