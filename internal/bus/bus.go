// Package bus is the only door to NATS: each router owns a stream, which it
// writes and others read (docs/decisions/0035-session-sync.md). A router runs a
// server of its own that has only its own stream, and reads a peer's at the
// peer's server; or all streams are in an operator's cluster. There is no quorum
// between routers: a router writes its stream without the others.
package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/internal/task"
)

// Settings of a bus.
type Settings struct {
	Name    string         // this router's
	Listen  netip.AddrPort // of the server here; not valid: there is none
	Keys    Keys
	Peers   []Peer
	Cluster []string // URLs of an operator's servers, instead of servers here and at peers
	Dir     string   // where the server here keeps what it must; nothing of it is needed again
	Bytes   int64    // that the stream may have: then the oldest goes
}

// Keys are how routers know each other, or an operator's cluster knows them.
type Keys struct {
	CA, Certificate, Key string // files, PEM; all or none. At a cluster CA alone will do
	PasswordFile         string // the same secret on all routers; at a cluster that of User
	User                 string // at a cluster
	CredentialsFile      string // at a cluster (NATS .creds)
}

// Peer is another router.
type Peer struct {
	Name    string
	Address netip.AddrPort // of its server; not needed with Cluster
}

// Event is what happens on the bus. One of the fields is set.
type Event struct {
	Opened  *Opened
	Joined  *Joined
	Left    *Left
	Message *Message
	Asked   *Asked
}

// Opened says that the own stream can be written, with nothing in it.
type Opened struct{}

// Joined says that a peer's stream is being read. Seamless: from where it was
// left, so that nothing was missed.
type Joined struct {
	Peer     string
	Seamless bool
}

// Left says that a peer's stream is not read any more, or cannot be.
type Left struct {
	Peer string
	Err  error
}

// Message is the next one of a peer's stream.
type Message struct {
	Peer   string
	Data   []byte
	Missed bool   // there were others before it, which the stream does not have any more
	Behind uint64 // how many come after it already
}

// Asked says that a peer asks for something.
type Asked struct{ Peer string }

// Status is how the own stream is.
type Status struct {
	Open     bool
	Err      error // why not
	Clients  int   // that are connected to the server here
	Messages uint64
	Bytes    uint64
	Refused  uint64 // connections without the right keys
}

// Bus is one router's part. Its methods may be called from several goroutines.
type Bus struct {
	settings Settings
	secret   string // of the connection to the own server
	log      *slog.Logger
	events   chan Event
	tasks    task.Tasks
	cancel   context.CancelFunc
	guard    *guard
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
func Open(ctx context.Context, s Settings, log *slog.Logger) *Bus {
	ctx, cancel := context.WithCancel(ctx)
	b := &Bus{settings: s, log: log, events: make(chan Event, queued), cancel: cancel, joined: map[string]*nats.Conn{}}
	random := make([]byte, 16)
	rand.Read(random) // never fails (crypto/rand)
	b.secret = hex.EncodeToString(random)
	b.tasks.Go(func() { b.again(ctx, b.own, func(err error) { b.closed(err) }) })
	for _, p := range s.Peers {
		r := &reader{bus: b, peer: p}
		b.tasks.Go(func() {
			b.again(ctx, r.read, func(err error) { b.notify(ctx, Event{Left: &Left{p.Name, err}}) })
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
func (b *Bus) Events() <-chan Event { return b.events }

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
func (b *Bus) notify(ctx context.Context, e Event) {
	select {
	case b.events <- e:
	case <-ctx.Done():
	}
}

func streamName(router string) string { return "WEFT_FAILOVER_" + router }
func subject(router string) string    { return "weft.failover." + router + ".sessions" }
func asking(router string) string     { return "weft.failover." + router + ".ask" }

// ErrClosed says that there is nowhere to write to.
var ErrClosed = errors.New("the stream is not open")

// Publish writes a message to this router's stream. It waits only for the server, and
// for a short time.
func (b *Bus) Publish(data []byte) error {
	b.mu.Lock()
	js := b.js
	b.mu.Unlock()
	if js == nil {
		return ErrClosed
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

func (b *Bus) closed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.js, b.err = nil, err
}

// Status asks how the own stream is.
func (b *Bus) Status(ctx context.Context) Status {
	b.mu.Lock()
	js, here := b.js, b.server
	s := Status{Open: b.js != nil, Err: b.err}
	if b.guard != nil {
		s.Refused = b.guard.refused.Load()
	}
	b.mu.Unlock()
	if js == nil {
		return s
	}
	if here != nil {
		s.Clients = max(here.NumClients()-1, 0) // but for this process
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
