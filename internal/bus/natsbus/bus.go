// Package natsbus is the only door to NATS: the server of the own stream, and the
// readers of those of peers. It runs in the helper process weft-bus, because the
// server has goroutines of its own, whose panics end their process.
package natsbus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/internal/bus"
	"weft/internal/task"
)

// Bus is one router's part. Its methods may be called from several goroutines.
type Bus struct {
	settings bus.Settings
	secret   string // of the connection to the own server
	log      *slog.Logger
	events   chan bus.Event
	tasks    task.Tasks
	cancel   context.CancelFunc
	gate     *gate // of the server here; stays when that ends
	backlog  backlog

	mu     sync.Mutex
	js     jetstream.JetStream // nil: the own stream is not there now
	err    error
	server *server.Server        // nil: none here, or not now
	joined map[string]*nats.Conn // by peer
}

// queued is how many events may wait to be handled: what comes then waits in
// the streams.
const queued = 64

// Open starts the server and the readers. What does not work now is tried again
// until Close.
func Open(ctx context.Context, s bus.Settings, log *slog.Logger) *Bus {
	ctx, cancel := context.WithCancel(ctx)
	b := &Bus{settings: s, log: log, events: make(chan bus.Event, queued), cancel: cancel, joined: map[string]*nats.Conn{}}
	random := make([]byte, 16)
	rand.Read(random) // never fails (crypto/rand)
	b.secret = hex.EncodeToString(random)
	b.tasks.Go(func() {
		b.again(ctx, b.own, func(err error) { b.closed(err); b.notify(ctx, bus.Event{Closed: &bus.Closed{Err: err}}) })
	})
	for _, p := range s.Peers {
		r := &reader{bus: b, peer: p}
		b.tasks.Go(func() {
			b.again(ctx, r.read, func(err error) { b.notify(ctx, bus.Event{Left: &bus.Left{Peer: p.Name, Err: err}}) })
		})
	}
	return b
}

// Close stops everything.
func (b *Bus) Close() {
	b.cancel()
	b.tasks.Wait()
}

// Events is where things happen; it is never closed.
func (b *Bus) Events() <-chan bus.Event { return b.events }

// pauses between attempts
const (
	shortPause = 250 * time.Millisecond
	longPause  = 2 * time.Second
)

// again does a thing until ctx ends.
func (b *Bus) again(ctx context.Context, do func(context.Context) error, failed func(error)) {
	pause := shortPause
	for {
		begin := time.Now()
		err := task.Call(func() error { return do(ctx) })
		if ctx.Err() != nil {
			return
		}
		failed(err)
		if time.Since(begin) > longPause {
			pause = shortPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// tell passes an event to its receiver and waits until it is taken.
func (b *Bus) notify(ctx context.Context, e bus.Event) {
	select {
	case b.events <- e:
	case <-ctx.Done():
	}
}

func streamName(router string) string { return "WEFT_FAILOVER_" + router }
func subject(router string) string    { return "weft.failover." + router + ".sessions" }
func asking(router string) string     { return "weft.failover." + router + ".ask" }

// Publish writes a message to this router's stream. It waits only for the server, and
// for a short time.
func (b *Bus) Publish(data []byte) error {
	b.mu.Lock()
	js := b.js
	b.mu.Unlock()
	if js == nil {
		return bus.ErrClosed
	}
	if _, err := js.PublishAsync(subject(b.settings.Name), data); err != nil {
		return fmt.Errorf("write to stream: %w", err)
	}
	return nil
}

// Ask asks a peer for a listing.
func (b *Bus) Ask(peer string) error {
	b.mu.Lock()
	conn := b.joined[peer]
	b.mu.Unlock()
	if conn == nil {
		return fmt.Errorf("request to %s: not connected", peer)
	}
	if err := conn.Publish(asking(peer), []byte(b.settings.Name)); err != nil {
		return fmt.Errorf("ask %s: %w", peer, err)
	}
	return nil
}

// closed says why the own stream cannot be written.
func (b *Bus) closed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.js, b.err = nil, err
}

// Status asks how the own stream is.
func (b *Bus) Status(ctx context.Context) bus.Status {
	b.mu.Lock()
	js, here := b.js, b.server
	s := bus.Status{Open: b.js != nil, Err: b.err}
	if b.gate != nil {
		s.Refused = b.gate.refused.Load()
	}
	b.mu.Unlock()
	if js == nil {
		return s
	}
	if here != nil {
		s.Clients = b.gate.connected()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, streamName(b.settings.Name))
	if err != nil {
		s.Err = err
		return s
	}
	s.Messages, s.Bytes = stream.CachedInfo().State.Msgs, stream.CachedInfo().State.Bytes
	return s
}
