package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/internal/bus"
)

// reader reads a peer's stream.
type reader struct {
	bus  *Bus
	peer bus.Peer
	// where it is: of which stream, by the time when that was made
	made time.Time
	last uint64
}

func (r *reader) urls() string {
	if len(r.bus.settings.Cluster) > 0 {
		return strings.Join(r.bus.settings.Cluster, ",")
	}
	return "nats://" + r.peer.Address.String()
}

// where returns what the reader connects to.
func (r *reader) where() string {
	if len(r.bus.settings.Cluster) > 0 {
		return "the cluster"
	}
	return r.peer.Name
}

// read reads until something breaks.
func (r *reader) read(ctx context.Context) error {
	options, err := r.bus.options(r.peer.Name)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(r.urls(), options...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", r.where(), r.bus.explain(err))
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	begin, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := js.Stream(begin, streamName(r.peer.Name))
	if err != nil {
		return fmt.Errorf("find the stream of %s: %w", r.peer.Name, r.bus.explain(errors.Join(err, conn.LastError())))
	}
	info := stream.CachedInfo()
	seamless := info.Created.Equal(r.made) && info.State.FirstSeq <= r.last+1 && info.State.LastSeq >= r.last
	from := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: 30 * time.Second,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.last + 1,
	}
	if !seamless {
		r.made, r.last = info.Created, info.State.LastSeq
		from.OptStartSeq = r.last + 1
	}
	consumer, err := stream.CreateConsumer(begin, from)
	if err != nil {
		return fmt.Errorf("read the stream of %s: %w", r.peer.Name, r.bus.explain(errors.Join(err, conn.LastError())))
	}
	r.bus.join(r.peer.Name, conn)
	defer r.bus.join(r.peer.Name, nil)
	r.bus.notify(ctx, bus.Event{Joined: &bus.Joined{Peer: r.peer.Name, Seamless: seamless}})
	return r.consume(ctx, conn, consumer)
}

func (b *Bus) join(peer string, conn *nats.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joined[peer] = conn
}

func (r *reader) consume(ctx context.Context, conn *nats.Conn, consumer jetstream.Consumer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, err := consumer.Messages(jetstream.PullMaxMessages(256), jetstream.PullHeartbeat(2*time.Second), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return fmt.Errorf("read the stream of %s: %w", r.peer.Name, err)
	}
	defer messages.Stop()
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	conn.SetClosedHandler(func(*nats.Conn) { messages.Stop() })
	for {
		m, err := messages.Next()
		if err != nil {
			return fmt.Errorf("read the stream of %s: %w", r.peer.Name, errors.Join(err, conn.LastError()))
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read the stream of %s: %w", r.peer.Name, err)
		}
		missed := at.Sequence.Stream != r.last+1
		r.last = at.Sequence.Stream
		r.bus.notify(ctx, bus.Event{Message: &bus.Message{Peer: r.peer.Name, Data: m.Data(), Missed: missed, Behind: at.NumPending}})
	}
}
