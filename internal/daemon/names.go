package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/dnsio"
	"weft/internal/feature/dns64"
	"weft/internal/state"
)

// names keeps the name server of [dns64] running: the resolver, its sockets
// and its forwarders.
type names struct {
	log     *slog.Logger
	mu      sync.Mutex // the API reads while a reload changes
	running *nameServer
	said    string          // the last complaint, not to repeat it
	again   chan<- struct{} // told when it is worth trying once more
}

// tryAgain is the pause before addresses are tried again that could not be had.
const tryAgain = 2 * time.Second

type nameServer struct {
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	resolver *dns64.Resolver
	server   *dnsio.Server
	pool     *dnsio.Pool
	listens  atomic.Pointer[[]netip.AddrPort]
}

// set starts, changes or stops the name server so that it is that of f.
func (n *names) set(ctx context.Context, f *config.File, facts state.Facts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	settings, wanted := dns64.SettingsOf(f, facts)
	if !wanted {
		n.stop()
		return
	}
	if n.running == nil {
		n.running = startNames(ctx, settings)
	}
	if err := n.running.update(ctx, settings); err != nil {
		if err.Error() != n.said {
			n.log.Error("the name server does not listen everywhere", "error", err)
		}
		n.said = err.Error()
		again := n.again
		time.AfterFunc(tryAgain, func() {
			select {
			case again <- struct{}{}:
			default:
			}
		})
		return
	}
	n.said = ""
}

func (n *names) stop() {
	if n.running != nil {
		n.running.close()
		n.running = nil
	}
}

// wait stops the name server and waits until it has.
func (n *names) wait() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop()
}

func startNames(ctx context.Context, s dns64.Settings) *nameServer {
	ctx, cancel := context.WithCancel(ctx)
	n := &nameServer{cancel: cancel}
	n.listens.Store(&s.Listen)
	n.pool = dnsio.NewPool(dnsio.Options{
		MixCase: s.MixCase, Now: time.Now, ID: dnsio.RandomID, Bit: dnsio.RandomBit,
		Loop: func(a netip.AddrPort) bool { return slices.Contains(*n.listens.Load(), a) },
	}, nil)
	n.resolver = dns64.NewResolver(dns64.Outside{
		Upstream: n.pool, Now: time.Now, After: time.After,
		Start: func(task func(context.Context)) { n.tasks.Go(func() { task(ctx) }) },
	}, s)
	n.server = dnsio.NewServer(n.resolver.Handle)
	return n
}

// update changes settings and sockets; what stays is not interrupted.
func (n *nameServer) update(ctx context.Context, s dns64.Settings) error {
	n.listens.Store(&s.Listen)
	var list []dnsio.Forwarder
	for _, f := range s.Forwarders {
		list = append(list, dnsio.Forwarder{Transport: dnsio.Transport(f.Transport), Address: f.Address, Name: f.Name})
	}
	n.pool.Set(list, s.MixCase)
	n.resolver.Update(s)
	return n.server.Set(ctx, s.Listen)
}

func (n *nameServer) close() {
	n.cancel()
	n.server.Close()
	n.tasks.Wait()
	n.pool.Close()
}

// status gives what the API shows, nil if there is no name server.
func (n *names) status() *api.DNS64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		return nil
	}
	d := &api.DNS64{Cached: n.running.resolver.Cached(), Counters: n.running.resolver.Counters(), Forwarders: n.running.pool.States()}
	for _, a := range n.running.server.Addresses() {
		d.Listen = append(d.Listen, a.String())
	}
	slices.Sort(d.Listen)
	return d
}
