package task

import (
	"context"
	"sync"
	"time"
)

// Wake is a signal without content. It stays set until it is received; setting it twice
// is the same as once.
type Wake chan struct{}

// NewWake makes a signal that is not set.
func NewWake() Wake { return make(Wake, 1) }

// Set sets the signal. It never blocks.
func (w Wake) Set() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Clear takes back a signal that was set.
func (w Wake) Clear() {
	select {
	case <-w:
	default:
	}
}

// Gate is a signal that stays: what must happen once before others go on.
type Gate struct {
	once   sync.Once
	opened chan struct{}
}

// NewGate makes a closed gate.
func NewGate() *Gate { return &Gate{opened: make(chan struct{})} }

// Open opens the gate for good.
func (g *Gate) Open() { g.once.Do(func() { close(g.opened) }) }

// Opened is closed once the gate is open.
func (g *Gate) Opened() <-chan struct{} { return g.opened }

// Pause waits; it returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// OnChange remembers the last error, so that one that stays is logged once.
type OnChange struct{ last string }

// Changed reports whether err differs from the one before.
func (o *OnChange) Changed(err error) bool {
	changed := text(err) != o.last
	o.last = text(err)
	return changed
}
