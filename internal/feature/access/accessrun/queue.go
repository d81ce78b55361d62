package accessrun

import (
	"sync"

	"weft/internal/task"
)

// queue is work that waits its turn: so many pieces at a time, each in a
// goroutine that takes the next one when it is done. What waits is a few words: in
// a storm tens of thousands of logins wait, and a goroutine for each would be most
// of the daemon's memory.
type queue struct {
	most int // at a time

	mu      sync.Mutex
	waiting []func()
	running int
}

// put has work done, in the order in which it comes; tasks are told of the
// goroutines.
func (q *queue) put(tasks *task.Tasks, work func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == q.most {
		q.waiting = append(q.waiting, work)
		return
	}
	q.running++
	tasks.Go(func() {
		for work != nil {
			work()
			work = q.next()
		}
	})
}

// next gives what waits; nil: nothing does, and there is one goroutine less.
func (q *queue) next() (work func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting = nil // what a storm took
		q.running--
		return nil
	}
	work, q.waiting[0] = q.waiting[0], nil
	q.waiting = q.waiting[1:]
	return work
}
