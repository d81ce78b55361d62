package daemon

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/nat64"
	"weft/internal/slowpath"
	"weft/internal/state"
	"weft/internal/translate"
)

// services keeps one slow path running for each translator.
type services struct {
	log   *slog.Logger
	mu    sync.Mutex // the API reads counts while a reload changes the set
	slow  map[string]*running
	tasks sync.WaitGroup
	clock func() int64 // nanoseconds
	all   bool         // ICMP errors without limit
}

type running struct {
	slow   *nat64.Slow
	cancel context.CancelFunc
	device atomic.Pointer[slowpath.Device] // nil until it is open
	again  chan struct{}                   // the device may be there again
}

func newServices(log *slog.Logger) *services {
	started := time.Now()
	clock := func() int64 { return int64(time.Since(started)) }
	return &services{log: log, slow: map[string]*running{}, clock: clock}
}

// set starts, changes and stops slow paths so that they are those of f.
func (s *services) set(ctx context.Context, d *datapath.Datapath, f *config.File, facts state.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bindings := s.bindings(d, f)
	wanted := map[string]bool{}
	for _, name := range f.Names("nat64") {
		wanted[name] = true
		if r, ok := s.slow[name]; ok && r.slow.Device == nat64.From(f, name).Device {
			r.slow.Update(rand.Uint32, bindings, f, facts)
			select {
			case r.again <- struct{}{}:
			default:
			}
			continue
		}
		s.stop(name)
		s.start(ctx, name, bindings, f, facts)
	}
	for name := range s.slow {
		if !wanted[name] {
			s.stop(name)
		}
	}
}

func (s *services) stop(name string) {
	if r, ok := s.slow[name]; ok {
		r.cancel()
		delete(s.slow, name)
	}
}

func (s *services) start(ctx context.Context, name string, bindings translate.Bindings, f *config.File, facts state.Facts) {
	slow := nat64.NewSlow(name, s.clock, rand.Uint32, bindings, f, facts)
	if s.all {
		slow.SendAllErrors()
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{slow: slow, cancel: cancel, again: make(chan struct{}, 1)}
	s.slow[name] = r
	link, _ := facts.Link(slow.Device)
	// what comes up is taken from here on: weft run says next that it is ready
	device, err := slowpath.Open(slow.Device, link.MAC)
	if err == nil {
		r.device.Store(device)
	}
	s.tasks.Go(func() { s.serve(ctx, r, link.MAC, device, err) })
}

// slowPause is how long a slow path waits for its device to be there again.
const slowPause = 100 * time.Millisecond

// serve runs one slow path. If its device fails (somebody removed it) it waits
// and tries again; the event loop makes the device anew meanwhile. device and err
// are what came of the first try.
func (s *services) serve(ctx context.Context, r *running, mac [6]byte, device *slowpath.Device, err error) {
	said := ""
	for {
		if err == nil {
			said = ""
			r.device.Store(device)
			err = serveOnce(ctx, r, device)
		}
		if ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			s.log.Warn("slow path interrupted", "translator", r.slow.Name, "device", r.slow.Device, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.again:
		case <-time.After(slowPause):
		}
		device, err = slowpath.Open(r.slow.Device, mac)
	}
}

// serveOnce serves until ctx ends or the device fails, and closes it.
func serveOnce(ctx context.Context, r *running, device *slowpath.Device) error {
	defer device.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go watchTime(ctx, r, device)
	return device.Serve(ctx, func(ip []byte, how state.Arrival) []slowpath.Packet {
		return packets(r.slow.Handle(ip, how))
	})
}

func packets(answers []nat64.Answer) (list []slowpath.Packet) {
	for _, a := range answers {
		list = append(list, slowpath.Packet{Bytes: a.Bytes, Local: a.Local, Back: a.Back})
	}
	return list
}

// watchTime sends what is due when time has passed.
func watchTime(ctx context.Context, r *running, device *slowpath.Device) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, p := range packets(r.slow.Due()) {
				_ = device.Put(p) // lost like any packet that the stack refuses
			}
		}
	}
}

// bindings gives the slow paths of stateful translators their way to state.
// Without it they translate nothing, and everybody else goes on.
func (s *services) bindings(d *datapath.Datapath, f *config.File) translate.Bindings {
	if nat64.Tables(f).Sessions == 0 {
		return nil
	}
	r, err := d.Resolver()
	if err != nil {
		s.log.Error("no slow path for stateful translators", "error", err)
		return nil
	}
	return r
}

// SlowCounts gives what the slow paths made of packets, by translator.
func (s *services) SlowCounts() map[string]map[state.Outcome]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]map[state.Outcome]uint64{}
	for name, r := range s.slow {
		all[name] = r.slow.Counts()
	}
	return all
}

func (s *services) wait() { s.tasks.Wait() }
