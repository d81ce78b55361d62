// Package bus is this router's part of the message bus between routers
// (docs/decisions/0035-session-sync.md): each router owns a stream, which it
// writes and others read. NATS, which carries it, runs in the helper process
// weft-bus (internal/bus/natsbus); this package talks to the process.
package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weft/internal/helper"
)

// Program is the name of the helper.
const Program = "weft-bus"

// Bus is one router's part. Its methods may be called from several goroutines.
type Bus struct {
	settings Settings
	helper   *helper.Helper
	events   chan Event

	mu      sync.Mutex
	open    bool
	closed  error // why the own stream is not open
	unsent  error // an earlier message was not taken: the next Publish fails
	status  Status
	joined  map[string]bool
	behind  float64
	measure time.Time // when it was last asked for
}

// waiting is how many events may wait to be handled: what comes then waits in
// the helper and in the streams.
const waiting = 64

// Open starts the helper. What does not work now is tried again until Close.
func Open(ctx context.Context, s Settings, log *slog.Logger) *Bus {
	b := &Bus{settings: s, events: make(chan Event, waiting), joined: map[string]bool{}}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // Settings has no such field
	}
	program := s.Program
	if program == "" {
		program = Program
	}
	b.helper = helper.Start(ctx, helper.Spec{
		Program: program, First: helper.Message{Kind: KindStart, Data: text}, Receive: b.receive, Ended: b.ended, Log: log,
	})
	return b
}

// Close stops the helper.
func (b *Bus) Close() { b.helper.Stop() }

// Events is where things happen; it is never closed.
func (b *Bus) Events() <-chan Event { return b.events }

// Process returns the helper's process id; 0 while there is none.
func (b *Bus) Process() int { return b.helper.Process() }

// Fault returns why the own stream cannot be written; for some time also how the
// helper has ended last.
func (b *Bus) Fault() error {
	if err := b.helper.Fault(); err != nil {
		return fmt.Errorf("helper process: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// receive handles what the helper sends.
func (b *Bus) receive(ctx context.Context, m helper.Message) {
	switch m.Kind {
	case KindEvent, KindMessage:
		if e, err := readEvent(m); err == nil {
			b.note(e)
			b.pass(ctx, e)
		}
	case KindStatus:
		var s statusText
		if json.Unmarshal(m.Data, &s) == nil {
			b.mu.Lock()
			b.status = s.status()
			b.mu.Unlock()
		}
	case KindBehind:
		if v, err := readBehind(m.Data); err == nil {
			b.mu.Lock()
			b.behind = v
			b.mu.Unlock()
		}
	case KindUnsent:
		b.mu.Lock()
		b.unsent = errors.New(string(m.Data))
		b.mu.Unlock()
	}
}

// note keeps what an event changes.
func (b *Bus) note(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Opened != nil:
		b.open, b.closed, b.unsent = true, nil, nil
	case e.Closed != nil:
		b.open, b.closed = false, e.Closed.Err
	case e.Joined != nil:
		b.joined[e.Joined.Peer] = true
	case e.Left != nil:
		delete(b.joined, e.Left.Peer)
	}
}

func (b *Bus) pass(ctx context.Context, e Event) {
	select {
	case b.events <- e:
	case <-ctx.Done():
	}
}

// ended says that the helper has ended: the stream and the readers with it.
func (b *Bus) ended(ctx context.Context, why error) {
	b.note(Event{Closed: &Closed{why}})
	b.mu.Lock()
	b.joined, b.status, b.behind = map[string]bool{}, Status{}, 0
	b.mu.Unlock()
	b.pass(ctx, Event{Closed: &Closed{why}})
	for _, p := range b.settings.Peers {
		b.pass(ctx, Event{Left: &Left{p.Name, why}})
	}
}

// Publish writes a message to this router's stream. It does not wait: if the
// helper does not keep up the message is not sent, and the error says so. It may
// also be that of an earlier message.
func (b *Bus) Publish(data []byte) error {
	b.mu.Lock()
	open, unsent := b.open, b.unsent
	b.unsent = nil
	b.mu.Unlock()
	if !open {
		return ErrClosed
	}
	if unsent == nil {
		unsent = b.helper.Send(helper.Message{Kind: KindPublish, Data: data})
	}
	if unsent != nil {
		return fmt.Errorf("write to stream: %w", unsent)
	}
	return nil
}

// Ask asks a peer for a dump.
func (b *Bus) Ask(peer string) error {
	b.mu.Lock()
	joined := b.joined[peer]
	b.mu.Unlock()
	if !joined {
		return fmt.Errorf("request to %s: not connected", peer)
	}
	if err := b.helper.Send(helper.Message{Kind: KindAsk, Data: []byte(peer)}); err != nil {
		return fmt.Errorf("ask %s: %w", peer, err)
	}
	return nil
}

// measureEvery is how often the helper is asked to measure.
const measureEvery = 200 * time.Millisecond

// Behind returns how far the slowest of those who read the own stream is behind,
// from 0 to 1: then the next message pushes out one that it has not read. What
// waits for the helper counts as well.
func (b *Bus) Behind() float64 {
	now := time.Now()
	b.mu.Lock()
	behind, due := b.behind, now.Sub(b.measure) >= measureEvery
	if due {
		b.measure = now
	}
	b.mu.Unlock()
	if due {
		_ = b.helper.Send(helper.Message{Kind: KindMeasure}) // without it the last value stays
	}
	return max(behind, b.helper.Waiting())
}

// Status returns how the own stream is, as of a second ago.
func (b *Bus) Status() Status {
	b.mu.Lock()
	s := b.status
	s.Open, s.Err = b.open, b.closed
	b.mu.Unlock()
	if err := b.helper.Fault(); !s.Open && err != nil {
		s.Err = err
	}
	return s
}
