package task

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Guard calls what handles messages of the network. A panic is the loss of the
// message that led to it, not the end of the process or of the task that reads
// them. The zero Guard is ready.
type Guard struct {
	mu     sync.Mutex
	panics uint64
	silent uint64 // panics that are not in the log
	last   time.Time
	logged time.Time
	why    string
}

const (
	// guardLogs is how often a panic is logged: a sender may repeat its message.
	guardLogs = time.Minute
	// guardFault is for how long a panic is a fault.
	guardFault = time.Hour
	// guardOutline is how much of a message log and health show, in bytes: the
	// headers of most packets.
	guardOutline = 80
)

// Do calls f, which handles message. It reports whether f returned: after a
// panic the caller goes on with the next message. f must release its locks by
// defer.
func (g *Guard) Do(what string, message []byte, f func()) bool {
	err := Call(func() error { f(); return nil })
	p, is := err.(*Panicked)
	if !is {
		return true
	}
	g.note(what, message, p, time.Now())
	return false
}

// Run is Do for work that is due without a message.
func (g *Guard) Run(what string, f func()) bool { return g.Do(what, nil, f) }

func (g *Guard) note(what string, message []byte, p *Panicked, now time.Time) {
	why := fmt.Sprintf("%s: %v", what, p.Value)
	if message != nil {
		outline := fmt.Sprintf("%x", message[:min(len(message), guardOutline)])
		why = fmt.Sprintf("%s of %d bytes that begins with %s: %v", what, len(message), outline, p.Value)
	}
	g.mu.Lock()
	g.panics++
	g.last, g.why = now, why
	logs := g.logged.IsZero() || now.Sub(g.logged) >= guardLogs
	silent := g.silent
	if logs {
		g.logged, g.silent = now, 0
	} else {
		g.silent++
	}
	g.mu.Unlock()
	if logs {
		slog.Error("panic while handling a message; the message is lost", "message", why, "not_logged", silent, "stack", string(p.Stack))
	}
}

// Panics is how many panics there were.
func (g *Guard) Panics() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.panics
}

// Fault describes the last panic, for an hour after it; nil before and later.
func (g *Guard) Fault() error { return g.fault(time.Now()) }

func (g *Guard) fault(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.panics == 0 || now.Sub(g.last) > guardFault {
		return nil
	}
	return fmt.Errorf("a defect of weft: %d messages were lost by a panic, the last at %s: %s", g.panics, g.last.UTC().Format(time.RFC3339), g.why)
}
