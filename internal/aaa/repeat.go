package aaa

import (
	"net/netip"
	"sync"
	"time"

	"layeh.com/radius"
)

// A client repeats a CoA or Disconnect request if the answer is lost, and must get the
// same answer: the session that was to end is gone by then, and a NAK would be wrong
// (RFC 5176 section 2.3, RFC 5080 section 2.2.2).

// orderKey is by what a repeated order is known: who sent it, from where, and the
// authenticator, which covers all of it.
type orderKey struct {
	from          netip.AddrPort
	id            byte
	authenticator [16]byte
}

// answered are the last answers, in a ring.
type answered struct {
	mu   sync.Mutex
	of   map[orderKey]given
	ring []orderKey // the next one to be forgotten is at next
	next int
}

type given struct {
	packet *radius.Packet
	at     time.Time
}

// Answers are kept for as long as servers repeat an order (FreeRADIUS gives up after
// 30 seconds), and so many of them.
const (
	answersFor  = time.Minute
	answersMost = 1024
)

func keyOf(r *radius.Request) orderKey {
	k := orderKey{id: r.Identifier, authenticator: r.Authenticator}
	if from, err := netip.ParseAddrPort(r.RemoteAddr.String()); err == nil {
		k.from = from
	}
	return k
}

// find returns the answer to an order that was given before; nil: it is a new one.
func (a *answered) find(k orderKey, now time.Time) *radius.Packet {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one, ok := a.of[k]; ok && now.Sub(one.at) <= answersFor {
		return one.packet
	}
	return nil
}

func (a *answered) add(k orderKey, p *radius.Packet, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[orderKey]given{}
	}
	if _, again := a.of[k]; !again {
		if len(a.ring) < answersMost {
			a.ring = append(a.ring, k)
		} else {
			delete(a.of, a.ring[a.next])
			a.ring[a.next] = k
			a.next = (a.next + 1) % answersMost
		}
	}
	a.of[k] = given{p, now}
}
