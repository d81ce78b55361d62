package accessrun

import (
	"slices"
	"sync"
	"testing"

	"weft/internal/task"
)

func TestAQueueDoesSoManyPiecesAtATimeAndAllOfThem(t *testing.T) {
	const most, pieces = 3, 1000
	q := queue{most: most}
	var tasks task.Tasks
	var mu sync.Mutex
	running, top, done := 0, 0, 0
	began, hold := make(chan struct{}, pieces), make(chan struct{})
	for range pieces {
		q.put(&tasks, func() {
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
	if n := len(q.waiting); n != pieces-most {
		t.Errorf("%d wait, not %d", n, pieces-most)
	}
	for range most {
		<-began
	}
	close(hold)
	tasks.Wait()
	if top != most || done != pieces || q.running != 0 || q.waiting != nil {
		t.Errorf("%d at a time, %d done, %d run on, %d wait", top, done, q.running, len(q.waiting))
	}
}

func TestAQueueKeepsTheOrderAndGoesOnWhenItWasEmpty(t *testing.T) {
	q := queue{most: 1}
	var tasks task.Tasks
	var got, want []int
	for i := range 100 {
		want = append(want, i)
		q.put(&tasks, func() { got = append(got, i) })
		if i == 50 {
			tasks.Wait()
		}
	}
	tasks.Wait()
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}
