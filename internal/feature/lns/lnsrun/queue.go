package lnsrun

// queue is questions that wait their turn: so many are worked at at a time. What waits is
// a few words: in a storm tens of thousands of logins wait, and a goroutine for each would
// be most of the daemon's memory. It belongs to the loop.
type queue struct {
	most    int // at a time
	running int
	waiting []question
}

// put takes a question; true: it is to be worked at now, false: it waits.
func (q *queue) put(one question) bool {
	if q.running == q.most {
		q.waiting = append(q.waiting, one)
		return false
	}
	q.running++
	return true
}

// next gives the next one that is still worth it; false: there is none, and one less
// is worked at.
func (q *queue) next(worth func(question) bool) (one question, ok bool) {
	for len(q.waiting) > 0 {
		one, q.waiting[0] = q.waiting[0], question{}
		if q.waiting = q.waiting[1:]; worth(one) {
			return one, true
		}
	}
	q.waiting = nil // what a storm took
	q.running--
	return question{}, false
}
