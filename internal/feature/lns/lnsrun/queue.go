package lnsrun

// queue holds work that waits for its turn: most items are worked on at a time. A
// waiting item takes a few words: in a storm tens of thousands of logins wait, and a
// goroutine for each would be most of the daemon's memory. The loop owns it.
type queue struct {
	most    int // that are worked on at a time
	running int
	waiting []question
}

// put adds a question; true: the caller works on it now, false: it waits.
func (q *queue) put(one question) bool {
	if q.running == q.most {
		q.waiting = append(q.waiting, one)
		return false
	}
	q.running++
	return true
}

// next returns the next question that is still useful; false: there is none, and the
// caller stops working.
func (q *queue) next(worth func(question) bool) (one question, ok bool) {
	for len(q.waiting) > 0 {
		one, q.waiting[0] = q.waiting[0], question{}
		if q.waiting = q.waiting[1:]; worth(one) {
			return one, true
		}
	}
	q.waiting = nil // frees what a storm used
	q.running--
	return question{}, false
}
