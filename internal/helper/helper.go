package helper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weft/internal/task"
)

// Spec says what a helper is.
type Spec struct {
	Program string // its name, a file beside weft's own program; or its path
	First   Message
	// Receive gets the helper's messages. While it does not return, the helper
	// waits: it must give up when ctx ends.
	Receive func(ctx context.Context, m Message)
	// Ended says that the process has ended, and why; what it knew is lost. The
	// next one gets First again.
	Ended func(ctx context.Context, why error)
	Log   *slog.Logger
}

const (
	queued     = 256 // messages that may wait for the helper
	pingEvery  = time.Second
	hangsAfter = 10 * time.Second // without an answer
	helloAfter = 10 * time.Second // a start on a machine that is busy
	grace      = 3 * time.Second  // to end when it is asked to
	// a process that has lived this long has worked: the next start does not wait
	lived    = 10 * time.Second
	leastGap = 100 * time.Millisecond
	mostGap  = 10 * time.Second
	// for how long an end is a fault, after the helper works again
	remembered = 10 * time.Minute
)

// Helper is a process that is kept running.
type Helper struct {
	spec Spec
	task *task.Task
	out  chan Message

	mu    sync.Mutex
	up    bool
	pid   int
	quick int // processes in a row that have ended soon
	ends  int
	last  time.Time // of the last end
	why   error
}

// Start keeps a helper running until Stop or the end of ctx.
func Start(ctx context.Context, s Spec) *Helper {
	h := &Helper{spec: s, out: make(chan Message, queued)}
	h.task = task.Keep(ctx, task.Kept{Name: s.Program, Log: s.Log, Run: h.run, Retry: task.Retry{First: time.Millisecond, Most: time.Millisecond}})
	return h
}

// Stop ends the process and waits for it.
func (h *Helper) Stop() { h.task.Stop() }

var (
	// ErrDown says that the helper does not run now.
	ErrDown = errors.New("the helper process does not run")
	// ErrFull says that the helper does not keep up.
	ErrFull = errors.New("the helper process does not take messages fast enough")
)

// Send passes a message to the helper. It does not wait: ErrFull or ErrDown is
// for the caller to handle.
func (h *Helper) Send(m Message) error {
	if m.Kind >= firstOwn {
		return fmt.Errorf("messages of kind %#x are the line's own", m.Kind)
	}
	if len(m.Data) > Largest {
		return ErrTooLarge
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return ErrDown
	}
	select {
	case h.out <- m:
		return nil
	default:
		return ErrFull
	}
}

// Waiting is how full the queue of messages for the helper is, from 0 to 1.
func (h *Helper) Waiting() float64 { return float64(len(h.out)) / queued }

// Process returns the process id; 0 if there is none now.
func (h *Helper) Process() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pid
}

// Fault returns why the helper does not run, or for some time how its last
// process has ended.
func (h *Helper) Fault() error {
	if err := h.task.Fault(); err != nil {
		return err
	}
	return h.past(time.Now())
}

func (h *Helper) past(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends == 0 || now.Sub(h.last) > remembered {
		return nil
	}
	times := "once"
	if h.ends > 1 {
		times = fmt.Sprintf("%d times", h.ends)
	}
	return fmt.Errorf("it runs again, but it has ended %s, the last time at %s: %w", times, h.last.UTC().Format(time.RFC3339), h.why)
}

// run is one process, after the pause that the ends of the last ones ask for.
func (h *Helper) run(ctx context.Context, works func()) error {
	h.mu.Lock()
	gap := h.gap()
	h.mu.Unlock()
	if !task.Pause(ctx, gap) {
		return nil
	}
	begun := time.Now()
	err := h.process(ctx, works)
	if ctx.Err() != nil {
		return nil
	}
	h.mu.Lock()
	h.note(err, time.Now(), time.Since(begun))
	h.mu.Unlock()
	h.spec.Ended(ctx, err)
	return err
}

// gap is how long the next start waits.
func (h *Helper) gap() time.Duration {
	if h.quick == 0 {
		return 0
	}
	return min(leastGap<<min(h.quick-1, 10), mostGap)
}

// note keeps how a process has ended. Processes that never worked are the fault
// of the task; they are no ends.
func (h *Helper) note(why error, now time.Time, life time.Duration) {
	if life >= lived {
		h.quick = 0
	}
	h.quick++
	if !errors.As(why, new(*noStart)) {
		h.ends++
		h.last, h.why = now, why
	}
}

// noStart is the error of a helper that did not come to work.
type noStart struct{ error }

func (e *noStart) Unwrap() error { return e.error }

// raise lets messages through to the process, without those for the last one.
func (h *Helper) raise(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.out) > 0 {
		<-h.out
	}
	h.up, h.pid = true, pid
}

func (h *Helper) lower() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up, h.pid = false, 0
}
