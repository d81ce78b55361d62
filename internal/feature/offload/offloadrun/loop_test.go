package offloadrun

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weft/internal/feature/offload"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/state"
	"weft/internal/task"
)

// The offloader's loop, in a time of its own: what ends flows is heard in time,
// whatever else the loop waits for.

// quietHost is the backend of a run; it blocks a call until the test releases it.
type quietHost struct {
	endsWake, rulesWake, feedWake chan struct{}
	generation                    atomic.Uint32
	held                          chan struct{} // deliver, resolve or ruleset wait for it; nil: not held
	mu                            sync.Mutex
	since                         time.Time // the end of a connection has been waiting
	ended, changed                bool
	taken                         int // ends
	resolved                      int
	listed                        int // devices
	looks                         int
	each                          time.Duration // that a question for a connection takes
}

func newQuietHost() *quietHost {
	return &quietHost{endsWake: make(chan struct{}, 1), rulesWake: make(chan struct{}, 1), feedWake: make(chan struct{}, 1)}
}

func (h *quietHost) PutFlows(list []state.Flow) (int, error) { return len(list), nil }
func (h *quietHost) OpenFlows([]state.FlowKey)               {}
func (h *quietHost) DeleteFlows([]state.FlowKey) error       { return nil }
func (h *quietHost) Forget([]state.FlowKey) error            { return nil }
func (h *quietHost) Some(func(state.FlowState) bool, func(state.FlowUse)) (bool, error) {
	return false, nil
}
func (h *quietHost) Look([]state.FlowKey, func(int, state.FlowState)) error { return nil }
func (h *quietHost) SetHop(uint32, state.FlowHop) error                     { return nil }
func (h *quietHost) SetSession(state.FlowSession, uint32) error             { return nil }
func (h *quietHost) Generation() uint32                                     { return h.generation.Load() }
func (h *quietHost) Bump()                                                  { h.generation.Add(1) }
func (h *quietHost) Lease(time.Duration, int)                               {}
func (h *quietHost) EndsWake() <-chan struct{}                              { return h.endsWake }
func (h *quietHost) RulesetWake() <-chan struct{}                           { return h.rulesWake }
func (h *quietHost) DumpLinks(context.Context, rtnetlink.Sink) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed++
	return nil
}
func (h *quietHost) Passed([]state.PassedFlow, int) ([]state.PassedFlow, error)  { return nil, nil }
func (h *quietHost) Keep(context.Context, []state.KeptConnection) ([]int, error) { return nil, nil }
func (h *quietHost) Paths(_ context.Context, a []state.FlowAsk) ([]state.FlowPath, error) {
	return make([]state.FlowPath, len(a)), nil
}

func (h *quietHost) Connections(_ context.Context, t []state.FlowTuple, _ uint16) ([]state.Connection, error) {
	time.Sleep(time.Duration(len(t)) * h.each)
	return make([]state.Connection, len(t)), nil
}

func (h *quietHost) RulesetChanged() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.changed
	h.changed = false
	return changed, nil
}

func (h *quietHost) Ended(_ int, use func(state.Connection)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		h.ended = false
		h.taken++
		use(state.Connection{ID: 1})
	}
	return nil
}

// Behind is of connections; the feed's is its own.
func (h *quietHost) Behind() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		return 0
	}
	return time.Since(h.since)
}

// end is the kernel's word that a connection is no more.
func (h *quietHost) end() {
	h.mu.Lock()
	h.ended, h.since = true, time.Now()
	h.mu.Unlock()
	h.endsWake <- struct{}{}
}

func (h *quietHost) did(what *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *what
}

func (h *quietHost) wait(ctx context.Context, count *int) {
	h.mu.Lock()
	*count++
	held := h.held
	h.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
}

// feed is a host's news of routes: a neighbour that is to be confirmed.
type feed struct {
	*quietHost
	delivered int
}

func (f *feed) Wake() <-chan struct{} { return f.feedWake }
func (f *feed) Behind() time.Duration { return 0 }
func (f *feed) Deliver(ctx context.Context, _ rtnetlink.Sink, _ int) (bool, error) {
	f.wait(ctx, &f.delivered)
	return false, nil
}

// runs starts a run against a host; what it needs of the host is there once it returns.
func runs(t *testing.T, h *quietHost, f *feed, ruleset func(context.Context) ([]byte, error)) *offloadRun {
	t.Helper()
	c := &offload.Config{Protocols: []offload.Protocol{offload.UDP}, MinimumPackets: 2, IdleTimeout: time.Minute}
	r := &offloadRun{
		log: slog.New(slog.DiscardHandler), config: func() *offload.Config { return c }, ask: task.NewMailbox[asked](), works: func() {}, again: make(chan struct{}),
		flows: h, tracking: h, feed: f, ruleset: ruleset, service: offload.New(h, h, h, context.Canceled), started: time.Now(),
		resolve: func(ctx context.Context, _ state.KernelNeighbour) error { h.wait(ctx, &h.resolved); return nil },
		passed:  make(chan []state.PassedFlow), stale: make(chan []state.KernelNeighbour, staleMost), rules: rulesetLook{looked: make(chan looked)},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.loop(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return r
}

func nothing(context.Context) ([]byte, error) { return []byte(`{"nftables": []}`), nil }

// The kernel may hold its lock on links for seconds, while a thousand devices are
// removed: the loop's requests then wait. The flows of a connection that ends meanwhile
// are taken back with all others, by the generation number.
func TestAConnectionEndsWhileTheLoopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		f := &feed{quietHost: h}
		runs(t, h, f, nothing)
		time.Sleep(10 * time.Second)
		h.held = make(chan struct{})
		f.feedWake <- struct{}{}
		synctest.Wait()
		before := h.Generation()
		time.Sleep(10 * time.Second)
		if h.Generation() != before {
			t.Error("flows were taken back though nothing had ended")
		}
		h.end()
		time.Sleep(500 * time.Millisecond)
		if h.Generation() == before {
			t.Error("half a second after the end of a connection its flows go on")
		}
		if h.did(&h.taken) != 0 {
			t.Fatal("the loop did not wait: the test shows nothing")
		}
		close(h.held)
		synctest.Wait()
		if h.did(&h.taken) != 1 {
			t.Error("the loop never took the end")
		}
		after := h.Generation()
		time.Sleep(10 * time.Second)
		if h.Generation() != after {
			t.Error("flows are taken back again and again")
		}
	})
}

func TestNeighboursAreConfirmedWithoutTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		r := runs(t, h, &feed{quietHost: h}, nothing)
		h.held = make(chan struct{})
		r.stale <- []state.KernelNeighbour{{Device: 1, Addr: netip.MustParseAddr("192.0.2.1")}}
		synctest.Wait()
		before := h.Generation()
		h.end()
		synctest.Wait()
		if h.did(&h.resolved) != 1 || h.did(&h.taken) != 1 || h.Generation() != before {
			t.Errorf("%d neighbours asked for, %d ends taken, generation %d to %d", h.resolved, h.taken, before, h.Generation())
		}
		close(h.held)
	})
}

// nft may take seconds. Meanwhile connections end, and what it lists is of no use
// if the ruleset changes once more.
func TestALookAtTheRulesetHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		h.held = make(chan struct{})
		r := runs(t, h, &feed{quietHost: h}, func(ctx context.Context) ([]byte, error) {
			h.wait(ctx, &h.looks)
			return nothing(ctx)
		})
		time.Sleep(time.Second)
		h.end()
		synctest.Wait()
		if h.did(&h.looks) != 1 || h.did(&h.taken) != 1 {
			t.Errorf("%d looks, %d ends taken", h.looks, h.taken)
		}
		h.mu.Lock()
		h.changed = true
		h.mu.Unlock()
		h.rulesWake <- struct{}{}
		synctest.Wait()
		h.held <- struct{}{} // the first look ends; it was of the ruleset before
		synctest.Wait()
		looking := func() (is bool) {
			if err := r.ask.Ask(t.Context(), func(a asked) { is = a.service.Status(a.now).Looking }); err != nil {
				t.Error(err)
			}
			return is
		}
		if !looking() {
			t.Error("the ruleset of before was taken for the one in force")
		}
		close(h.held)
		time.Sleep(time.Second)
		if looking() || h.did(&h.looks) != 2 {
			t.Errorf("after %d looks the ruleset is not known", h.looks)
		}
	})
}

func TestALookThatFailsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		runs(t, h, &feed{quietHost: h}, func(ctx context.Context) ([]byte, error) {
			h.wait(ctx, &h.looks)
			return nil, context.DeadlineExceeded
		})
		time.Sleep(time.Minute)
		if n := h.did(&h.looks); n < 5 || n > 20 {
			t.Errorf("%d looks in a minute", n)
		}
	})
}

// A weak router needs milliseconds to look up a connection. When many flows arrive at
// once, the ends of connections are still read in time, and no learnt flow is taken back.
func TestManyNewFlowsHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		r := runs(t, h, &feed{quietHost: h}, nothing)
		time.Sleep(time.Second)
		h.each = 5 * time.Millisecond
		before := h.Generation()
		list := make([]state.PassedFlow, offersAtOnce)
		for i := range list {
			list[i] = state.PassedFlow{Generation: before, Tuple: state.FlowTuple{Protocol: state.ProtocolUDP}}
		}
		for range 2 {
			r.passed <- list
			for range 50 {
				h.end()
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(10 * time.Second)
		if h.Generation() != before {
			t.Errorf("all flows were taken back %d times", h.Generation()-before)
		}
		if n := h.did(&h.taken); n < 90 { // some are taken with the next
			t.Errorf("ends were taken %d times of 100", n)
		}
	})
}

// XDP can hand frames to many a device only while a program is there, and the
// kernel does not tell when that is: the loop looks when weft has changed something.
func TestDevicesAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newQuietHost()
		r := runs(t, h, &feed{quietHost: h}, nothing)
		generation := h.Generation()
		r.again <- struct{}{}
		synctest.Wait()
		if n := h.did(&h.listed); n != 2 {
			t.Errorf("devices were listed %d times, want at the start and again", n)
		}
		if h.Generation() != generation {
			t.Error("all flows were taken back")
		}
	})
}
