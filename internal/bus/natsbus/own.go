package natsbus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/internal/bus"
)

const (
	dialTimeout  = 2 * time.Second
	pingInterval = 2 * time.Second
	// how many messages may be on their way to the server
	pending = 512
	// what the server here may use besides the stream
	spareMemory = 16 << 20
	mostClients = 512 // more than the gate lets in
)

// own serves and writes the own stream until something breaks.
func (b *Bus) own(ctx context.Context) error {
	if len(b.settings.Cluster) > 0 {
		options, err := b.options("")
		if err != nil {
			return err
		}
		conn, err := nats.Connect(strings.Join(b.settings.Cluster, ","), options...)
		if err != nil {
			return fmt.Errorf("connect to the cluster: %w", b.explain(err))
		}
		defer conn.Close()
		return b.write(ctx, conn, nil)
	}
	s, g, err := b.serve(ctx)
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	defer g.close()
	conn, err := nats.Connect("", nats.InProcessServer(s), nats.NoReconnect(), nats.UserInfo(localUser, b.secret))
	if err != nil {
		return fmt.Errorf("connect to this router's server: %w", err)
	}
	defer conn.Close()
	return b.write(ctx, conn, s)
}

// serve starts this router's server. It has no stream yet: the data of an earlier server
// is not used, because it is not known what has happened since.
func (b *Bus) serve(ctx context.Context) (*server.Server, *gate, error) {
	config, err := b.settings.Keys.TLS()
	if err != nil {
		return nil, nil, err
	}
	password, err := b.settings.Keys.Password()
	if err != nil {
		return nil, nil, err
	}
	if config == nil && password == "" {
		return nil, nil, errNoKeys
	}
	if config == nil && !b.settings.Listen.Addr().IsLoopback() {
		return nil, nil, fmt.Errorf("listen on %s without certificates: sessions and password would cross the network in the clear", b.settings.Listen)
	}
	if err := os.RemoveAll(b.settings.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("clear the server's directory: %w", err)
	}
	g := &guard{name: b.settings.Name, own: b.secret, password: password, tls: config != nil, peers: b.settings.Peers}
	door := &gate{guard: g, tls: config}
	if err := door.listen(b.settings.Listen); err != nil {
		return nil, nil, err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: b.settings.Name, DontListen: true, // the gate does
		NoLog: true, NoSigs: true, MaxConn: mostClients, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: b.settings.Dir, JetStreamMaxMemory: b.settings.Bytes + spareMemory, JetStreamMaxStore: spareMemory,
		CustomClientAuthentication: g, TLSConfig: config, TLSTimeout: 2, AuthTimeout: 10, // connections of the gate say at once who they are
		PingInterval: pingInterval, MaxPingsOut: 2,
	})
	if err != nil {
		door.close()
		return nil, nil, fmt.Errorf("make the server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		door.close()
		s.Shutdown()
		s.WaitForShutdown()
		return nil, nil, errors.New("this router's server does not start")
	}
	door.inside = s.InProcessConn
	door.tasks.Again("connections of peers", func() { door.serve(ctx) })
	b.mu.Lock()
	b.gate, b.server = door, s
	b.mu.Unlock()
	return s, door, nil
}

// write opens the stream and returns when the connection, the server or ctx
// ends.
func (b *Bus) write(ctx context.Context, conn *nats.Conn, s *server.Server) error {
	refused := make(chan error, 1)
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending), jetstream.WithPublishAsyncTimeout(5*time.Second),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	stream, err := b.makeStream(ctx, js)
	if err != nil {
		return b.explain(errors.Join(err, conn.LastError()))
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	b.tasks.Go(func() { b.backlog.measure(measuring, stream) })
	asked, err := conn.Subscribe(asking(b.settings.Name), func(m *nats.Msg) {
		b.notify(ctx, bus.Event{Asked: &bus.Asked{Peer: string(m.Data)}})
	})
	if err != nil {
		return fmt.Errorf("subscribe to requests: %w", err)
	}
	defer asked.Unsubscribe()
	b.mu.Lock()
	b.js, b.err = js, nil
	b.mu.Unlock()
	defer b.closed(errors.New("the stream is being reopened"))
	b.notify(ctx, bus.Event{Opened: &bus.Opened{}})
	look := time.NewTicker(shortPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-refused:
			return fmt.Errorf("write to stream: %w", b.explain(errors.Join(err, conn.LastError())))
		case <-look.C:
		}
		if conn.IsClosed() || s != nil && !s.Running() {
			return fmt.Errorf("the server is gone: %w", errors.Join(conn.LastError(), nats.ErrConnectionClosed))
		}
	}
}

// makeStream makes the stream empty: what it had was of another time.
func (b *Bus) makeStream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	name := streamName(b.settings.Name)
	if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("remove the old stream: %w", err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{subject(b.settings.Name)}, Description: "sessions of the weft router " + b.settings.Name,
		Storage: jetstream.MemoryStorage, Replicas: 1, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxBytes: b.settings.Bytes, MaxConsumers: -1, MaxMsgs: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	return stream, nil
}
