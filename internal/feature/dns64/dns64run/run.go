// Package dns64run is the half of DNS64 that touches the system: the name
// server, its sockets and its forwarders.
package dns64run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"weft/internal/dnsio"
	"weft/internal/feature/dns64"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// Runner keeps the name server of [dns64] running.
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*server]
}

// server is what the runner's loop owns.
type server struct {
	running *nameServer // nil without [dns64]
	fault   error
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{d, task.StartLoop(ctx, "dns64", &server{}, nil)}
}

// Apply starts, changes or stops the name server.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Do(ctx, func(s *server) error {
		settings, wanted := dns64.SettingsOf(round.File, round.Facts)
		s.fault = nil
		if !wanted {
			s.stop()
			return nil
		}
		if s.running == nil {
			s.running = start(ctx, settings)
		}
		if err := s.running.update(ctx, settings); err != nil {
			s.fault = fmt.Errorf("DNS64 cannot listen on all addresses: %w", err)
		}
		return s.fault
	})
}

// Status reports whether the name server listens on all its addresses.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(s *server) []state.Health {
		if s.running == nil {
			return nil
		}
		if fault := errors.Join(s.running.server.Fault(), s.running.guard.Fault()); s.fault == nil && fault != nil {
			return []state.Health{state.HealthOf("dns64", "", fault, "all other queries are answered; report it with the text above")}
		}
		return []state.Health{state.HealthOf("dns64", "", s.fault, "stop the other name server, or set [dns64] port; weft tries again every few seconds")}
	})
}

// Close stops the name server and waits until it has ended.
func (r *Runner) Close() error {
	task.Close(r.loop).stop()
	return nil
}

func (s *server) stop() {
	if s.running != nil {
		s.running.close()
		s.running = nil
	}
}

type nameServer struct {
	tasks    *task.Group
	resolver *dns64.Resolver
	server   *dnsio.Server
	pool     *dnsio.Pool
	listens  atomic.Pointer[[]netip.AddrPort]
	guard    task.Guard
}

func start(ctx context.Context, s dns64.Settings) *nameServer {
	n := &nameServer{tasks: task.NewGroup(ctx)}
	n.listens.Store(&s.Listen)
	n.pool = dnsio.NewPool(dnsio.Options{
		MixCase: s.MixCase, Now: time.Now, ID: dnsio.RandomID, Bit: dnsio.RandomBit,
		Loop: func(a netip.AddrPort) bool { return slices.Contains(*n.listens.Load(), a) },
	}, nil)
	n.resolver = dns64.NewResolver(dns64.Outside{
		Upstream: n.pool, Now: time.Now, After: time.After,
		Start: func(background func(context.Context)) {
			n.tasks.Go(func(ctx context.Context) error {
				n.guard.Run("query to a forwarder", func() { background(ctx) }) // the others go on
				return nil
			})
		},
	}, s)
	n.server = dnsio.NewServer(n.resolver.Handle, n.resolver.Allowed)
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
	n.tasks.Cancel()
	n.server.Close()
	_ = n.tasks.Wait() // a query that failed was answered so
	n.pool.Close()
}

// NameServer returns what the API shows, nil if there is no name server.
func (r *Runner) NameServer() *dns64.Row {
	return task.Get(context.Background(), r.loop, (*server).row)
}

// row is the row of weft show dns64, nil if there is no name server.
func (n *server) row() *dns64.Row {
	if n.running == nil {
		return nil
	}
	d := &dns64.Row{Cached: n.running.resolver.Cached(), Counters: n.running.resolver.Counters()}
	for _, f := range n.running.pool.States() {
		d.Forwarders = append(d.Forwarders, dns64.ForwarderRow(f))
	}
	for _, a := range n.running.server.Addresses() {
		d.Listen = append(d.Listen, a.String())
	}
	slices.Sort(d.Listen)
	return d
}
