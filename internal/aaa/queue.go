package aaa

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"weft/internal/task"
)

// Record is an account that no server has taken yet.
type Record struct {
	Number  uint64 `json:"-"` // by which it is kept for the next process; 0: it is not
	Account *Accounting
	Total   Traffic

	tried  int
	first  time.Time // when it was tried
	denied bool      // servers take others, and not this one
	over   bool      // acknowledged, discarded, or replaced by a later record
}

// sessionRecords are the records of one session, in their order: that of its end
// never overtakes its beginning.
type sessionRecords struct {
	id     string
	list   []*Record
	flying bool // the first one is on its way
	rests  bool // servers object to it: it is tried later
}

// queue is the accounting queue of a client. Records wait in one list, not each by itself:
// after a storm there are tens of thousands.
type queue struct {
	mu           sync.Mutex
	sessions     map[string]*sessionRecords // of each session that has any
	turn         []*sessionRecords          // those of which nothing is on its way, in the order in which they are tried
	ages         []*Record                  // all, oldest first, and some that are over
	interims     []*Record                  // those of them that a later record makes good for
	count        int
	most         int
	lost         uint64
	lostAt       time.Time
	acknowledged []uint64 // numbers that need not be kept any more
	ended        bool     // nothing more is to come
	heir         *Client  // who asks other servers from now on
	wake         func()   // something is settled; may be nil
	saidAt       time.Time
	unsaid       int // accounts that were lost since saidAt
	events       chan struct{}
	running      bool
	reportedAt   time.Time // when a server took one last
	tasks        task.Tasks
}

// accountsMost bounds the records of a section that wait. 30,000 sessions that all
// reconnect while no server answers make 60,000.
const accountsMost = 100_000

// After so many attempts a record lets the next one of its session pass, because a server
// that rejects the one may accept the other; and as soon as servers acknowledge other
// records but not this one. Then it is tried rarely, or each attempt would delay all
// others as if no server answered.
const (
	holdsUp     = 6
	deniedAfter = 3
	deniedRests = 10 * time.Minute
)

// add takes an account; it gives those that had to make room.
func (b *queue) add(one *Record) (lost []*Record) {
	id := one.Account.ID
	p := b.sessions[id]
	if p == nil {
		if b.sessions == nil {
			b.sessions = map[string]*sessionRecords{}
		}
		p = &sessionRecords{id: id}
		b.sessions[id] = p
		b.turn = append(b.turn, p)
	}
	// an interim account says nothing that the next one does not
	if n := len(p.list); n > 0 && p.list[n-1].Account.Status == StatusInterim && (n > 1 || !p.flying) {
		b.settle(p.list[n-1])
		p.list = p.list[:n-1]
	}
	if p.list = append(p.list, one); p.rests {
		p.rests = false
		p.list = append([]*Record{one}, p.list[:len(p.list)-1]...)
		b.turn = append(b.turn, p)
	}
	b.ages = append(b.ages, one)
	if one.Account.Status == StatusInterim {
		b.interims = append(b.interims, one)
	}
	for b.count++; b.count > b.most; {
		old := b.leastMissed()
		if old == nil {
			break
		}
		lost = append(lost, old)
	}
	return lost
}

// leastMissed takes out an account that is not on its way: the oldest interim one,
// because the next one or the Stop says more; or, without one, the oldest of all.
func (b *queue) leastMissed() *Record {
	for _, list := range [][]*Record{b.interims, b.ages} {
		for _, one := range list {
			if one.over {
				continue
			}
			p := b.sessions[one.Account.ID]
			if p.flying && p.list[0] == one {
				continue
			}
			p.list = slices.DeleteFunc(p.list, func(o *Record) bool { return o == one })
			b.settle(one)
			return one
		}
	}
	return nil
}

// settle notes that nothing is to be done any more about one.
func (b *queue) settle(one *Record) {
	one.over = true
	b.count--
	if one.Number != 0 {
		b.acknowledged = append(b.acknowledged, one.Number)
		if b.wake != nil {
			b.wake()
		}
	}
	b.ages, b.interims = waiting(b.ages, b.count), waiting(b.interims, b.count)
}

// waiting drops from a list what is over: at its beginning, and everywhere when
// there is much of it.
func waiting(list []*Record, count int) []*Record {
	gone := 0
	for gone < len(list) && list[gone].over {
		list[gone] = nil
		gone++
	}
	list = list[gone:]
	if len(list) > 2*count+1024 {
		list = slices.DeleteFunc(list, func(o *Record) bool { return o.over })
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// take returns the next record to send; nil: there is none.
func (b *queue) take() (*sessionRecords, *Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.turn) > 0 {
		p := b.turn[0]
		b.turn[0] = nil
		b.turn = b.turn[1:]
		if len(p.list) == 0 { // it had to make room
			delete(b.sessions, p.id)
			continue
		}
		p.flying = true
		return p, p.list[0]
	}
	b.turn = nil
	return nil, nil
}

// landed handles the result of a sent record: it was acknowledged, is discarded because it
// is old and servers object to it, or waits again behind all others; wake is called when
// one has rested.
func (b *queue) landed(p *sessionRecords, one *Record, reported, old bool, wake func()) outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	p.flying = false
	if one.tried++; one.tried == 1 {
		one.first = now
	}
	o := receivedNothing
	switch {
	case reported:
		b.reportedAt, o = now, taken
	case one.tried >= deniedAfter && b.reportedAt.After(one.first):
		one.denied, o = true, objected
	}
	given := old && o == objected
	switch {
	case reported || given || b.heir != nil:
		p.list = slices.DeleteFunc(p.list, func(o *Record) bool { return o == one })
		if reported || given {
			b.settle(one)
		} else {
			b.inherit(one)
		}
	case one.Account.Status == StatusInterim && len(p.list) > 1:
		p.list = p.list[1:]
		b.settle(one)
	case one.tried%holdsUp == 0 || one.denied:
		p.list = append(p.list[1:], one)
	}
	switch {
	case len(p.list) == 0:
		delete(b.sessions, p.id)
	case p.list[0].denied && o == objected:
		p.rests = true
		time.AfterFunc(deniedRests, func() { b.rested(p, wake) })
	default:
		b.turn = append(b.turn, p)
	}
	return o
}

// rested has one tried again to which servers object.
func (b *queue) rested(p *sessionRecords, wake func()) {
	b.mu.Lock()
	if p.rests {
		p.rests = false
		b.turn = append(b.turn, p)
	}
	b.mu.Unlock()
	wake()
}

// inherit passes a record to the client that replaces this one. It stays stored under its
// number.
func (b *queue) inherit(one *Record) {
	next := &Record{Number: one.Number, Account: one.Account, Total: one.Total}
	one.Number = 0
	b.settle(one)
	b.heir.put(next)
}

// put takes an account, and makes room for it if it must.
func (c *Client) put(one *Record) {
	b := &c.queue
	b.mu.Lock()
	if heir := b.heir; heir != nil {
		b.mu.Unlock()
		heir.put(one)
		return
	}
	lost := b.add(one)
	for _, old := range lost {
		c.lose(old, errFull)
	}
	b.mu.Unlock()
	c.wakeQueue()
}

// Settled gives the numbers of accounts that need not be kept any more, once.
func (c *Client) Acknowledged() []uint64 {
	b := &c.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.acknowledged
	b.acknowledged = nil
	return list
}

// WhenAcknowledged has f called when there is something for Settled; f does not wait.
func (c *Client) WhenAcknowledged(f func()) { c.queue.wake = f }

// HandOver gives what waits to the client of other servers, now and later; that
// tells it until ctx ends.
func (c *Client) HandOver(ctx context.Context, to *Client) {
	to.begin(ctx)
	b := &c.queue
	b.mu.Lock()
	defer c.wakeQueue()
	defer b.mu.Unlock()
	b.heir = to
	to.queue.mu.Lock()
	to.queue.lost += b.lost
	if b.lostAt.After(to.queue.lostAt) {
		to.queue.lostAt = b.lostAt
	}
	to.queue.mu.Unlock()
	for _, one := range slices.Clone(b.ages) {
		p := b.sessions[one.Account.ID]
		if one.over || p.flying && p.list[0] == one {
			continue // it comes later, if it has to
		}
		p.list = slices.DeleteFunc(p.list, func(o *Record) bool { return o == one })
		b.inherit(one)
	}
}

// handedOver reports whether nothing comes any more: another client has what waited. What is
// on its way goes there when it lands, and no other record waits behind it.
func (b *queue) handedOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heir != nil || b.ended && b.count == 0
}

// End ends the telling once nothing waits: no more is to come.
func (c *Client) End() {
	c.queue.mu.Lock()
	c.queue.ended = true
	c.queue.mu.Unlock()
	c.wakeQueue()
}

// Wait waits until no record is outstanding. The contexts of all records have ended.
func (c *Client) Wait() { c.queue.tasks.Wait() }

const (
	nearlyFull  = 0.8 // of the queue: a fault, before anything is lost
	lostFault   = time.Hour
	unheardTime = 10 * time.Minute
)

// Fault returns what is wrong with accounting: records were lost in the last hour,
// will be soon, or no server takes any.
func (c *Client) Fault() error { return c.queue.fault(time.Now()) }

func (b *queue) fault(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	waits := fmt.Sprintf("%d of at most %d accounting records wait for a RADIUS server", b.count, b.most)
	switch {
	case b.lost > 0 && now.Sub(b.lostAt) < lostFault:
		return fmt.Errorf("%d accounting records were lost, the last at %s; %s", b.lost, b.lostAt.UTC().Format(time.RFC3339), waits)
	case float64(b.count) >= nearlyFull*float64(b.most):
		return fmt.Errorf("%s; when the queue is full the oldest is lost", waits)
	case b.count == 0 || b.ages[0].tried == 0:
		return nil
	}
	since := b.ages[0].first
	if b.reportedAt.After(since) {
		since = b.reportedAt
	}
	if now.Sub(since) >= unheardTime {
		return fmt.Errorf("no RADIUS server has taken an accounting record since %s; %s", since.UTC().Format(time.RFC3339), waits)
	}
	return nil
}

// Waiting returns how many accounts no server has taken yet.
func (c *Client) Waiting() int {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return c.queue.count
}
