// Package task runs what goes on in the background: it starts, replaces and
// stops tasks, tries failed ones again, and keeps a panic from ending the
// process. It is the only package of the router with a go statement.
//
//	Group    goroutines with one end: one that fails ends the others
//	Tasks    goroutines that end by themselves
//	Task     one function that is run again, with growing pauses, until Stop
//	Guard    calls handlers of messages; a panic costs one message
//	Set      one running thing for each key
//	Mailbox  how others ask the loop that owns a state
//	Wake     a signal without content, Gate one that stays
//	OnChange logs an error when it changes, not each time
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Panicked is the error of a function that panicked.
type Panicked struct {
	Value any
	Stack []byte
}

func (p *Panicked) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Call runs f; a panic becomes an error of type *Panicked.
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panicked{v, debug.Stack()}
		}
	}()
	return f()
}

// errStopped is the cause of a context that Stop ended.
var errStopped = errors.New("stopped")

// Retry says how long the pauses between two tries are: the first, and the
// longest; each is twice the one before. A run that worked starts from the first.
type Retry struct{ First, Most time.Duration }

// DefaultRetry is used where Kept has none.
var DefaultRetry = Retry{100 * time.Millisecond, 10 * time.Second}

// Kept is a function that is to be kept running.
type Kept struct {
	Name string // what log and health call it
	// Run works until ctx ends. It calls works once it does what it is for (its
	// sockets are open), so that Fault knows.
	Run   func(ctx context.Context, works func()) error
	Retry Retry
	// Report is called with each error that differs from the last one, and with nil when Run
	// works again. If it is nil, the errors go to Log.
	Report func(error)
	Log    *slog.Logger
}

// Task is a function that is kept running.
type Task struct {
	kept   Kept
	cancel context.CancelCauseFunc
	done   chan struct{}
	again  Wake

	mu    sync.Mutex
	fault error
	began bool // works was called, or a try failed
}

// Keep starts a function and runs it again, after a pause, whenever it returns
// or panics before ctx ends or Stop is called.
func Keep(ctx context.Context, k Kept) *Task {
	if k.Retry == (Retry{}) {
		k.Retry = DefaultRetry
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &Task{kept: k, cancel: cancel, done: make(chan struct{}), again: NewWake()}
	go func() {
		defer close(t.done)
		t.keep(ctx)
	}()
	return t
}

func (t *Task) keep(ctx context.Context) {
	pause := t.kept.Retry.First
	for ctx.Err() == nil {
		worked := false
		err := Call(func() error {
			return t.kept.Run(ctx, func() {
				worked = true
				t.report(nil)
			})
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended")
		}
		t.report(err)
		if worked {
			pause = t.kept.Retry.First
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.again:
		case <-timer.C:
			pause = min(2*pause, t.kept.Retry.Most)
		}
		timer.Stop()
	}
}

// report keeps the fault, and passes on what differs from the last.
func (t *Task) report(err error) {
	t.mu.Lock()
	same := text(err) == text(t.fault)
	t.fault, t.began = err, true
	t.mu.Unlock()
	if same {
		return
	}
	var p *Panicked
	if errors.As(err, &p) && t.kept.Log != nil {
		t.kept.Log.Error("panic in a task; it is started again", "task", t.kept.Name, "panic", p.Value, "stack", string(p.Stack))
	}
	switch {
	case t.kept.Report != nil:
		t.kept.Report(err)
	case t.kept.Log == nil:
	case err != nil:
		t.kept.Log.Warn("task failed; weft tries again", "task", t.kept.Name, "error", err)
	default:
		t.kept.Log.Info("task works again", "task", t.kept.Name)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Fault returns why the task does not work now; nil while it works, and before
// its first try has ended.
func (t *Task) Fault() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fault
}

// Again ends the pause before the next try.
func (t *Task) Again() { t.again.Set() }

// Done is closed when the task has ended.
func (t *Task) Done() <-chan struct{} { return t.done }

// Stop ends the task and waits until it has ended.
func (t *Task) Stop() {
	t.cancel(errStopped)
	<-t.done
}

// Group is goroutines with one end: the first that fails or panics ends the
// context of all.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup
	mu     sync.Mutex
	err    error
}

// NewGroup makes an empty group.
func NewGroup(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// Context is that of the goroutines of the group.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f beside the others.
func (g *Group) Go(f func(ctx context.Context) error) {
	g.tasks.Go(func() {
		if err := Call(func() error { return f(g.ctx) }); err != nil {
			g.mu.Lock()
			if g.err == nil {
				g.err = err
			}
			g.mu.Unlock()
			g.cancel(err)
		}
	})
}

// Cancel ends the context of all, without waiting.
func (g *Group) Cancel() { g.cancel(errStopped) }

// Wait waits until all have ended, and gives the first error.
func (g *Group) Wait() error {
	g.tasks.Wait()
	g.cancel(errStopped)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Stop ends all, waits, and gives the first error that came before.
func (g *Group) Stop() error {
	g.cancel(errStopped)
	return g.Wait()
}
