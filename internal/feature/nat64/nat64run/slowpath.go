package nat64run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/nat64"
	"weft/internal/slowpath"
	"weft/internal/state"
	"weft/internal/task"
	"weft/internal/translate"
)

// slowPaths keeps one slow path running for each translator.
type slowPaths struct {
	log   *slog.Logger
	set   task.Set[string, *slowPath]
	clock func() int64 // nanoseconds
	all   bool         // ICMP errors without limit
}

// slowPath is that of one translator.
type slowPath struct {
	*task.Task
	slow   *nat64.Slow
	device atomic.Pointer[slowpath.Device] // nil until it is open
	timed  task.Guard
}

func newSlowPaths(log *slog.Logger) *slowPaths {
	started := time.Now()
	return &slowPaths{log: log, clock: func() int64 { return int64(time.Since(started)) }}
}

// apply starts, changes and stops slow paths so that they are those of f.
func (s *slowPaths) apply(ctx context.Context, d *datapath.Datapath, f *config.File, facts state.Facts) error {
	bindings, err := resolver(d, f)
	wanted := map[string]bool{}
	for _, name := range f.Names("nat64") {
		wanted[name] = true
	}
	failed := task.Want(&s.set, wanted, func(p *slowPath, _ bool) bool {
		if p.slow.Device != nat64.From(f, p.slow.Name).Device {
			return false
		}
		p.slow.Update(rand.Uint32, bindings, f, facts)
		p.Again()
		return true
	}, func(name string, _ bool) (*slowPath, error) {
		return s.start(ctx, name, bindings, f, facts), nil
	})
	if err != nil {
		return fmt.Errorf("no slow path for stateful translators: %w", err)
	}
	return failed
}

// slowPause is how long a slow path waits for its device to be there again.
const slowPause = 100 * time.Millisecond

// start opens the device before it returns: packets are taken from here on, as
// READY promises. A device that fails is opened again once it is back.
func (s *slowPaths) start(ctx context.Context, name string, bindings translate.Bindings, f *config.File, facts state.Facts) *slowPath {
	p := &slowPath{slow: nat64.NewSlow(name, s.clock, rand.Uint32, bindings, f, facts)}
	if s.all {
		p.slow.SendAllErrors()
	}
	link, _ := facts.Link(p.slow.Device)
	first, err := slowpath.Open(p.slow.Device, link.MAC)
	if err == nil {
		p.device.Store(first)
	}
	p.Task = task.Keep(ctx, task.Kept{
		Name: "slow path of nat64." + name, Log: s.log, Retry: task.Retry{First: slowPause, Most: slowPause},
		Run: func(ctx context.Context, works func()) error {
			device, failed := first, err
			first, err = nil, nil
			if device == nil && failed == nil {
				device, failed = slowpath.Open(p.slow.Device, link.MAC)
			}
			if failed != nil {
				return failed
			}
			p.device.Store(device)
			works()
			return p.serve(ctx, device)
		},
	})
	return p
}

// serve serves until ctx ends or the device fails, and closes it.
func (p *slowPath) serve(ctx context.Context, device *slowpath.Device) error {
	defer device.Close()
	g := task.NewGroup(ctx)
	g.Go(func(ctx context.Context) error { return p.watchTime(ctx, device) })
	g.Go(func(ctx context.Context) error {
		err := device.Serve(ctx, func(ip []byte, how state.Arrival) []slowpath.Packet {
			return packets(p.slow.Handle(ip, how))
		})
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	return g.Wait()
}

func packets(answers []nat64.Answer) (list []slowpath.Packet) {
	for _, a := range answers {
		list = append(list, slowpath.Packet{Bytes: a.Bytes, Local: a.Local, Back: a.Back})
	}
	return list
}

// fault is why the slow path does not work, or what it failed at.
func (p *slowPath) fault() error {
	if err := p.Fault(); err != nil {
		return err
	}
	if d := p.device.Load(); d != nil {
		return errors.Join(d.Fault(), p.timed.Fault())
	}
	return nil
}

// health reports whether the slow path works.
func (p *slowPath) health(name string) state.Health {
	remedy := "fragments and ICMP errors are lost until its device " + p.slow.Device + " is there again"
	if p.Fault() == nil {
		remedy = "all other packets are forwarded; report it with the text above"
	}
	return state.HealthOf("nat64", name, p.fault(), remedy)
}

// watchTime sends what is due when time has passed.
func (p *slowPath) watchTime(ctx context.Context, device *slowpath.Device) error {
	for task.Pause(ctx, time.Second) {
		p.timed.Run("packets that time makes due", func() {
			for _, packet := range packets(p.slow.Due()) {
				_ = device.Put(packet) // lost like any packet that the stack refuses
			}
		})
	}
	return nil
}

// resolver returns the slow paths of stateful translators their way to state.
// Without it they translate nothing, and all other translators go on.
func resolver(d *datapath.Datapath, f *config.File) (translate.Bindings, error) {
	if nat64.Tables(f).Sessions == 0 {
		return nil, nil
	}
	r, err := nat64table.Of(d).Resolver()
	if err != nil {
		return nil, err
	}
	return r, nil
}

// counts returns what the slow paths made of packets, by translator.
func (s *slowPaths) counts() map[string]map[state.Outcome]uint64 {
	all := map[string]map[state.Outcome]uint64{}
	for name, p := range s.set.All() {
		all[name] = p.slow.Counts()
	}
	return all
}

// opened waits until every slow path has its device.
func (s *slowPaths) opened(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("not open after 30s"))
	defer cancel()
	for name, p := range s.set.All() {
		for p.device.Load() == nil {
			if !task.Pause(ctx, time.Millisecond) {
				return fmt.Errorf("wait for the slow path of nat64.%s: %w", name, context.Cause(ctx))
			}
		}
	}
	return nil
}

// SlowPaths are slow paths without a daemon: those of weft trace. ICMP errors
// have no limit.
type SlowPaths struct{ paths *slowPaths }

// StartSlowPaths starts those of a file, and returns when each can take packets.
// clock gives nanoseconds.
func StartSlowPaths(ctx context.Context, log *slog.Logger, clock func() int64, d *datapath.Datapath, f *config.File, facts state.Facts) (SlowPaths, error) {
	s := SlowPaths{newSlowPaths(log)}
	s.paths.clock, s.paths.all = clock, true
	err := s.paths.apply(ctx, d, f, facts)
	if err == nil {
		err = s.paths.opened(ctx)
	}
	return s, err
}

// Counts returns what they decided so far, and how many packets they are done with.
func (s SlowPaths) Counts() (counts map[state.Outcome]uint64, served uint64) {
	counts = map[state.Outcome]uint64{}
	for _, p := range s.paths.set.All() {
		if d := p.device.Load(); d != nil {
			served += d.Served()
		}
		for o, n := range p.slow.Counts() {
			counts[o] += n
		}
	}
	return counts, served
}

// Images returns the addresses that translators put in the place of a.
func (s SlowPaths) Images(a netip.Addr) (images []netip.Addr) {
	for _, p := range s.paths.set.All() {
		images = append(images, p.slow.Images(a)...)
	}
	return images
}

// Close stops them.
func (s SlowPaths) Close() { s.paths.set.Close() }
