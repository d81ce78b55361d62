package task

import (
	"context"
	"errors"
	"time"
)

// ErrEnded is the answer of a mailbox whose loop has ended.
var ErrEnded = errors.New("the task has ended")

// Mailbox is how others ask the loop that owns an S: a function is sent, and
// runs there.
type Mailbox[S any] struct {
	asked chan func(S)
	ended *Gate
}

// NewMailbox makes a mailbox whose loop is yet to run.
func NewMailbox[S any]() Mailbox[S] { return Mailbox[S]{make(chan func(S)), NewGate()} }

// Asked is what the loop receives from; it calls each function with its state.
func (m Mailbox[S]) Asked() <-chan func(S) { return m.asked }

// Close says that the loop has ended: who asks gets ErrEnded.
func (m Mailbox[S]) Close() { m.ended.Open() }

// Ask runs f in the loop and waits for it. The error is that of ctx, ErrEnded,
// or a panic of f, which does not end the loop.
func (m Mailbox[S]) Ask(ctx context.Context, f func(S)) error {
	answered := make(chan error, 1)
	ask := func(s S) { answered <- Call(func() error { f(s); return nil }) }
	select {
	case m.asked <- ask:
	case <-m.ended.Opened():
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// The function runs now: who asked may not go on while it uses what is theirs.
	return <-answered
}

// Loop owns a state that changes only in requests and when time passes.
type Loop[S any] struct {
	box   Mailbox[S]
	task  *Task
	state S
}

// StartLoop runs a loop on s until Stop or the end of ctx. tick is called each
// time that its own pause has passed, and gives the next; nil: never.
func StartLoop[S any](ctx context.Context, name string, s S, tick func(S) time.Duration) *Loop[S] {
	l := &Loop[S]{box: NewMailbox[S](), state: s}
	l.task = Keep(ctx, Kept{Name: name, Run: func(ctx context.Context, works func()) error {
		works()
		var due <-chan time.Time
		if tick != nil {
			due = time.After(0)
		}
		for {
			select {
			case <-ctx.Done():
				l.box.Close()
				return nil
			case f := <-l.box.Asked():
				f(s)
			case <-due:
				due = time.After(tick(s))
			}
		}
	}})
	return l
}

// Ask runs f on the loop's state and waits for it.
func (l *Loop[S]) Ask(ctx context.Context, f func(S)) error { return l.box.Ask(ctx, f) }

// Fault returns why the loop does not work now; nil while it works.
func (l *Loop[S]) Fault() error { return l.task.Fault() }

// Stop ends the loop and waits until it has ended.
func (l *Loop[S]) Stop() { l.task.Stop() }

// Do is Ask for a function that can fail.
func (l *Loop[S]) Do(ctx context.Context, f func(S) error) error {
	var failed error
	if err := l.Ask(ctx, func(s S) { failed = f(s) }); err != nil {
		return err
	}
	return failed
}

// Get asks a loop for a value; the zero value if it has ended.
func Get[S, T any](ctx context.Context, l *Loop[S], f func(S) T) (v T) {
	_ = l.Ask(ctx, func(s S) { v = f(s) }) // a loop that has ended has nothing to show
	return v
}

// Close stops a loop and gives back its state, which belongs to the caller now.
func Close[S any](l *Loop[S]) S {
	l.Stop()
	return l.state
}
