package task

import (
	"log/slog"
	"sync"
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

// Tasks are goroutines that end by themselves, and are awaited together. A panic
// ends one alone, and is logged.
type Tasks struct{ wg sync.WaitGroup }

// Go runs f beside the others.
func (t *Tasks) Go(f func()) { t.wg.Go(func() { alone(f) }) }

// Wait waits until all have ended.
func (t *Tasks) Wait() { t.wg.Wait() }

func alone(f func()) {
	err := Call(func() error { f(); return nil })
	if p, is := err.(*Panicked); is {
		slog.Error("panic in a task, it has ended", "panic", p.Value, "stack", string(p.Stack))
	}
}
