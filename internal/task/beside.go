package task

import (
	"log/slog"
	"sync"
	"time"
)

// Beside runs f beside the caller. Its result, or its panic, comes once.
func Beside(f func() error) chan error {
	result := make(chan error, 1)
	go func() { result <- Call(f) }()
	return result
}

// Go runs f beside the caller, until f ends by itself. A panic ends f alone, and
// is logged.
func Go(f func()) { go alone(f) }

// Again runs f beside the caller, until f ends by itself. After a panic f is
// run again, with the pauses of DefaultRetry; f must bear that.
func Again(name string, f func()) { go again(name, f) }

// Tasks are goroutines that end by themselves, and are awaited together. A panic
// ends one alone, and is logged.
type Tasks struct{ wg sync.WaitGroup }

// Go runs f beside the others.
func (t *Tasks) Go(f func()) { t.wg.Go(func() { alone(f) }) }

// Again runs f beside the others as the function Again does.
func (t *Tasks) Again(name string, f func()) { t.wg.Go(func() { again(name, f) }) }

// Wait waits until all have ended.
func (t *Tasks) Wait() { t.wg.Wait() }

// again runs f until it ends without a panic.
func again(name string, f func()) {
	pause := DefaultRetry.First
	for begun := time.Now(); ; begun = time.Now() {
		err := Call(func() error { f(); return nil })
		p, is := err.(*Panicked)
		if !is {
			return
		}
		if time.Since(begun) > DefaultRetry.Most { // it worked
			pause = DefaultRetry.First
		}
		slog.Error("panic in a task; it is started again", "task", name, "panic", p.Value, "stack", string(p.Stack))
		time.Sleep(pause)
		pause = min(2*pause, DefaultRetry.Most)
	}
}

func alone(f func()) {
	err := Call(func() error { f(); return nil })
	if p, is := err.(*Panicked); is {
		slog.Error("panic in a task; it has ended", "panic", p.Value, "stack", string(p.Stack))
	}
}
