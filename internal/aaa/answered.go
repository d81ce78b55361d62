package aaa

import (
	"sync"
	"time"

	"layeh.com/radius"
)

// answered are orders that were carried out. Who gave one asks again if the answer
// is lost or late, and then gets the same answer (RFC 5176 section 2.3, RFC 5080
// section 2.2.2): carried out again, the end of a session would be told as that of
// a session that is not there.
type answered struct {
	mu      sync.Mutex
	answers map[orderKey]*radius.Packet
	oldest  []answeredAt
}

// orderKey is by what an order is known again. The authenticator is a digest of all
// that it says.
type orderKey struct {
	from          string
	code          radius.Code
	identifier    byte
	authenticator [16]byte
}

type answeredAt struct {
	key orderKey
	at  time.Time
}

// Servers ask again for some seconds. Only those who know a secret have answers
// kept for them.
const (
	answeredFor  = 30 * time.Second
	answeredMost = 10_000
)

func keyOf(r *radius.Request) orderKey {
	return orderKey{r.RemoteAddr.String(), r.Code, r.Identifier, r.Authenticator}
}

// before gives the answer that an order has had, nil if it is new.
func (a *answered) before(r *radius.Request) *radius.Packet {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answers[keyOf(r)]
}

// keep notes an answer, and forgets old ones.
func (a *answered) keep(r *radius.Request, answer *radius.Packet) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil {
		a.answers = map[orderKey]*radius.Packet{}
	}
	for len(a.oldest) > 0 && (len(a.oldest) >= answeredMost || now.Sub(a.oldest[0].at) > answeredFor) {
		delete(a.answers, a.oldest[0].key)
		a.oldest = a.oldest[1:]
	}
	key := keyOf(r)
	a.answers[key] = answer
	a.oldest = append(a.oldest, answeredAt{key, now})
}
