// Package timer is the clock of a protocol engine that is fed the time: what has to be
// looked at later stands in one queue, by when it is due.
package timer

import (
	"container/heap"
	"time"
)

// Timed is something that has to be looked at when its time comes.
type Timed interface {
	Due() time.Time // zero: never
	Tick(now time.Time)
	Slot() *Slot
}

// Slot is the place of something in a queue. The zero value is in none.
type Slot struct {
	at    time.Time
	index int // in the queue, from 1; 0: not in it
	what  Timed
}

// Queue is the time of an engine, and all that is due later. It is not safe for
// concurrent use.
type Queue struct {
	now   time.Time
	slots slots
}

// Now is the time that the engine was fed last.
func (q *Queue) Now() time.Time { return q.now }

// Set feeds the time.
func (q *Queue) Set(now time.Time) { q.now = now }

// Arm puts something into the queue by when it is due, or moves or removes it.
func (q *Queue) Arm(what Timed) {
	t, at := what.Slot(), what.Due()
	t.what = what
	switch {
	case at.IsZero() && t.index > 0:
		heap.Remove(&q.slots, t.index-1)
	case at.IsZero():
	case t.index == 0:
		t.at = at
		heap.Push(&q.slots, t)
	case !t.at.Equal(at):
		t.at = at
		heap.Fix(&q.slots, t.index-1)
	}
}

// Disarm takes something out of the queue.
func (q *Queue) Disarm(what Timed) {
	if t := what.Slot(); t.index > 0 {
		heap.Remove(&q.slots, t.index-1)
	}
}

// Due is when Tick has something to do; zero: never.
func (q *Queue) Due() time.Time {
	if len(q.slots) == 0 {
		return time.Time{}
	}
	return q.slots[0].at
}

// Len is how much is due at some time.
func (q *Queue) Len() int { return len(q.slots) }

// Tick feeds the time, and does what is due.
func (q *Queue) Tick(now time.Time) {
	q.now = now
	for len(q.slots) > 0 && !q.slots[0].at.After(now) {
		what := q.slots[0].what
		heap.Pop(&q.slots)
		what.Tick(now)
	}
}

// Earliest returns the first of the times that are not zero.
func Earliest(list ...time.Time) time.Time {
	var first time.Time
	for _, t := range list {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

type slots []*Slot

func (q slots) Len() int           { return len(q) }
func (q slots) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q slots) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i+1, j+1
}
func (q *slots) Push(x any) {
	t := x.(*Slot)
	*q = append(*q, t)
	t.index = len(*q)
}
func (q *slots) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.index = 0
	return t
}
