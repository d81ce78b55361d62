package natsbus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// backlog is how far the readers of this router's stream are behind. A dump of a million
// sessions checks it, so that it does not push unread messages out of the stream; events
// do not wait.
type backlog struct {
	mu      sync.Mutex
	asked   time.Time
	behind  float64 // of the slowest reader, as a part of what the stream may hold
	readers map[string]progress
}

// progress is how far a reader has got, and since when.
type progress struct {
	at    uint64
	since time.Time
}

const (
	// interval of the measurement, while a dump runs
	measureEvery = 50 * time.Millisecond
	// a reader that gets on nowhere for this long is not waited for: it may
	// have died, and what it misses it will ask for
	stuckAfter = 3 * time.Second
	// how long asking lasts
	askedFor = time.Second
)

// Behind returns how far the slowest of those who read the own stream is behind,
// from 0 to 1: then the next message pushes out one that it has not read.
func (b *Bus) Behind() float64 {
	l := &b.backlog
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Now()
	return l.behind
}

// behind returns what the last measurement found.
func (b *Bus) behind() float64 {
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	return b.backlog.behind
}

func (l *backlog) measure(ctx context.Context, stream jetstream.Stream) {
	l.mu.Lock()
	l.behind, l.readers = 0, map[string]progress{}
	l.mu.Unlock()
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.mu.Lock()
			wanted := now.Sub(l.asked) < askedFor
			l.mu.Unlock()
			if wanted {
				l.look(ctx, stream, now)
			}
		}
	}
}

// look measures the backlog. If the server does not answer, the backlog counts as empty.
func (l *backlog) look(ctx context.Context, stream jetstream.Stream, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	behind, seen := 0.0, map[string]progress{}
	info, err := stream.Info(ctx)
	if err == nil {
		held := float64(info.State.Bytes) / float64(max(info.State.Msgs, 1))
		list := stream.ListConsumers(ctx)
		for c := range list.Info() {
			p, known := l.readers[c.Name]
			if !known || p.at != c.Delivered.Stream {
				p = progress{c.Delivered.Stream, now}
			}
			seen[c.Name] = p
			if now.Sub(p.since) < stuckAfter {
				behind = max(behind, float64(c.NumPending)*held/float64(info.Config.MaxBytes))
			}
		}
		err = list.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.behind = 0; err == nil {
		l.behind, l.readers = behind, seen
	}
}
