package lnsrun

import (
	"slices"
	"sync"
	"testing"

	"weft/internal/subscriber"
	"weft/internal/task"
)

// worked has a queue's questions worked at, as answerAll does: loop owns the queue.
func worked(t *testing.T, loop *task.Loop[*queue], tasks *task.Tasks, one question, work func(question)) {
	t.Helper()
	begins := false
	if err := loop.Ask(t.Context(), func(q *queue) { begins = q.put(one) }); err != nil {
		t.Fatal(err)
	}
	if !begins {
		return
	}
	tasks.Go(func() {
		for more := true; more; {
			work(one)
			if err := loop.Ask(t.Context(), func(q *queue) { one, more = q.next(func(question) bool { return true }) }); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

func numbered(n int) question { return question{request: subscriber.AuthRequest{Serial: uint64(n)}} }

func TestAQueueDoesSoManyPiecesAtATimeAndAllOfThem(t *testing.T) {
	const most, fragments = 3, 1000
	loop := task.StartLoop(t.Context(), "queue", &queue{most: most}, nil)
	var tasks task.Tasks
	var mu sync.Mutex
	running, top, done := 0, 0, 0
	began, hold := make(chan struct{}, fragments), make(chan struct{})
	for i := range fragments {
		worked(t, loop, &tasks, numbered(i), func(question) {
			mu.Lock()
			running++
			top = max(top, running)
			mu.Unlock()
			began <- struct{}{}
			<-hold
			mu.Lock()
			running, done = running-1, done+1
			mu.Unlock()
		})
	}
	if n := task.Get(t.Context(), loop, func(q *queue) int { return len(q.waiting) }); n != fragments-most {
		t.Errorf("%d wait, not %d", n, fragments-most)
	}
	for range most {
		<-began
	}
	close(hold)
	tasks.Wait()
	q := task.Close(loop)
	if top != most || done != fragments || q.running != 0 || q.waiting != nil {
		t.Errorf("%d at a time, %d done, %d run on, %d wait", top, done, q.running, len(q.waiting))
	}
}

func TestAQueueKeepsTheOrderAndGoesOnWhenItWasEmpty(t *testing.T) {
	loop := task.StartLoop(t.Context(), "queue", &queue{most: 1}, nil)
	var tasks task.Tasks
	var got, want []int
	for i := range 100 {
		want = append(want, i)
		worked(t, loop, &tasks, numbered(i), func(q question) { got = append(got, int(q.request.Serial)) })
		if i == 50 {
			tasks.Wait()
		}
	}
	tasks.Wait()
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestWhatIsNotWorthItAnyMoreLeavesAQueue(t *testing.T) {
	q := &queue{most: 1}
	for i := range 4 {
		if q.put(numbered(i)) != (i == 0) {
			t.Errorf("question %d is worked at at the wrong time", i)
		}
	}
	one, more := q.next(func(x question) bool { return x.request.Serial == 2 })
	if !more || one.request.Serial != 2 || len(q.waiting) != 1 {
		t.Errorf("next is %d, %d wait", one.request.Serial, len(q.waiting))
	}
	if _, more = q.next(func(question) bool { return false }); more || q.running != 0 {
		t.Errorf("%d are worked at", q.running)
	}
}
