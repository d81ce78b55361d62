package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/feature/offload"
	"weft/internal/kernel"
	"weft/internal/state"
)

// offloading keeps one offloader running while [offload] is there.
type offloading struct {
	log    *slog.Logger
	router *Router
	mu     sync.Mutex // the API asks while a reload changes it
	now    *offloader
	tasks  sync.WaitGroup
}

// offloader learns flows and takes them back.
type offloader struct {
	log    *slog.Logger
	router *Router
	config offload.Config
	cancel context.CancelFunc
	ended  chan struct{}
	ask    chan func(*offload.Service)
	untold map[uint32]bool // connections that end without a word
}

// prepare stops the offloader if f wants tables of another size, or none: they
// are about to be replaced.
func (o *offloading) prepare(f *config.File) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil || o.now.config.TableSize == offload.Flows(f) {
		return
	}
	o.now.cancel()
	<-o.now.ended
	o.now = nil
}

// set starts the offloader, or gives it another configuration.
func (o *offloading) set(ctx context.Context, f *config.File) {
	c := offload.From(f)
	if c == nil {
		return // prepare has stopped it
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != nil {
		if !o.now.config.Equal(*c) {
			o.now.config = *c
			_ = o.now.with(ctx, func(s *offload.Service) { s.Set(*c) })
		}
		return
	}
	// the setting that makes the kernel tell was just made: what is there now may
	// be older, what comes later is not
	untold, err := o.untold(ctx)
	if err != nil {
		o.log.Error("nothing is offloaded: connection tracking cannot be asked", "error", err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	now := &offloader{log: o.log, router: o.router, config: *c, cancel: cancel, ended: make(chan struct{}), ask: make(chan func(*offload.Service)), untold: untold}
	o.now = now
	o.tasks.Go(func() {
		defer close(now.ended)
		now.run(ctx)
	})
}

func (o *offloading) wait() { o.tasks.Wait() }

// with runs f with the service that runs now; an error if none does.
func (o *offloading) with(ctx context.Context, f func(*offload.Service)) error {
	o.mu.Lock()
	now := o.now
	o.mu.Unlock()
	if now == nil {
		return errors.New("the daemon offloads nothing: weft.toml has no [offload]")
	}
	return now.with(ctx, f)
}

func (o *offloader) with(ctx context.Context, f func(*offload.Service)) error {
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case o.ask <- func(s *offload.Service) { f(s); close(done) }:
		<-done
		return nil
	case <-o.ended:
		return errors.New("the offloader has just ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run offloads until ctx ends; if it fails it begins anew, and meanwhile the
// stack has all flows.
func (o *offloader) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := o.once(ctx)
		if ctx.Err() != nil {
			return
		}
		o.log.Error("offload interrupted, the stack forwards", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

const (
	// leaseFor is how long flows may be used without word from weft; it is
	// renewed each leaseEvery.
	leaseFor   = 3 * time.Second
	leaseEvery = 500 * time.Millisecond
	flowsEvery = 5 * time.Second
	// offersAtOnce bounds the flows that are looked at between two looks at what
	// ended, endsAtOnce those of connections that ended between two at everything
	// else.
	offersAtOnce = 1024
	endsAtOnce   = 4096
)

func (o *offloader) once(ctx context.Context) (err error) {
	flows, err := o.router.datapath.Flows()
	if err != nil {
		return err
	}
	tracking, err := o.router.kernel.Conntrack()
	if err != nil {
		return errors.Join(err, flows.Close())
	}
	feed, err := o.router.kernel.RouteFeed()
	if err != nil {
		return errors.Join(err, tracking.Close(), flows.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	s := offload.New(flows, flows, tracking, datapath.ErrFlowsFull)
	run := &offloadRun{offloader: o, flows: flows, tracking: tracking, feed: feed, service: s, started: time.Now(), passed: make(chan []state.PassedFlow)}
	var tasks sync.WaitGroup
	tasks.Go(func() { feed.Follow(ctx) })
	tasks.Go(func() { tracking.Follow(ctx) })
	tasks.Go(func() { run.listen(ctx) })
	err = run.loop(ctx)
	flows.Bump() // nobody watches over what is offloaded
	cancel()
	err = errors.Join(err, tracking.Close(), flows.Close())
	tasks.Wait()
	feed.Close()
	return err
}

// offloadRun is one run of an offloader, with its doors open.
type offloadRun struct {
	*offloader
	flows    *datapath.Flows
	tracking *kernel.Conntrack
	feed     *kernel.RouteFeed
	service  *offload.Service
	started  time.Time
	passed   chan []state.PassedFlow
}

// listen hands on what the programs tell.
func (r *offloadRun) listen(ctx context.Context) {
	for {
		list, err := r.flows.Passed(nil, offersAtOnce)
		if len(list) > 0 {
			select {
			case r.passed <- list:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if !errors.Is(err, os.ErrClosed) && ctx.Err() == nil {
				r.log.Error("flows cannot be learnt", "error", err)
			}
			return
		}
	}
}

func (r *offloadRun) clock() time.Duration { return time.Since(r.started) }

func (r *offloadRun) begin(ctx context.Context) error {
	r.service.Set(r.config)
	for id := range r.untold {
		r.service.Old(id)
	}
	r.service.Begin()
	if err := r.feed.DumpLinks(ctx, r.service); err != nil {
		return err
	}
	r.service.End()
	r.service.RulesetChanged()
	return nil
}

func (r *offloadRun) loop(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	lease := time.NewTicker(leaseEvery)
	defer lease.Stop()
	sweep := time.After(flowsEvery)
	look := time.After(0) // at the ruleset
	r.flows.Lease(leaseFor, r.config.MinimumPackets)
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-lease.C:
			r.flows.Lease(leaseFor, r.config.MinimumPackets)
		case <-r.tracking.EndsWake():
			err = r.ends()
		case <-r.tracking.RulesetWake():
			if r.tracking.RulesetChanged() {
				r.service.RulesetChanged()
				look = time.After(lookAfter)
			}
		case <-look:
			look = nil
			err = r.look(ctx)
		case <-r.feed.Wake():
			err = r.news(ctx)
		case list := <-r.passed:
			if err = r.ends(); err == nil {
				err = r.service.Offer(ctx, list, r.clock())
			}
		case <-sweep:
			pause, more := flowsEvery, false
			if more, err = r.service.Sweep(ctx, r.clock()); more {
				pause = 0 // all others get their turn between
			}
			sweep = time.After(pause)
		case f := <-r.ask:
			f(r.service)
		}
		if err == nil {
			err = r.service.Err()
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// lookAfter is the pause before the ruleset is looked at: changes come in bursts.
const lookAfter = 50 * time.Millisecond

// ends takes back the flows of connections that ended.
func (r *offloadRun) ends() error {
	var list []state.Connection
	err := r.tracking.Ended(endsAtOnce, func(c state.Connection) { list = append(list, c) })
	if errors.Is(err, kernel.ErrNewsLost) {
		r.log.Warn("more connections ended than could be read in time, all flows are learnt anew")
		r.service.AllMayHaveEnded()
		err = nil
	}
	return errors.Join(err, r.service.Ended(list...))
}

// look finds out what of the ruleset flows must not go past.
func (r *offloadRun) look(ctx context.Context) error {
	text, err := r.router.kernel.Ruleset(ctx)
	if err != nil {
		r.log.Warn("the ruleset cannot be read, nothing is offloaded", "error", err)
		r.service.SetPolicy(offload.Policy{Unknown: true})
		return nil
	}
	policy, err := offload.ReadRuleset(text)
	if err != nil {
		r.log.Warn("the ruleset cannot be understood, nothing is offloaded", "error", err)
		r.service.SetPolicy(offload.Policy{Unknown: true})
		return nil
	}
	for _, b := range policy.Blocks {
		r.log.Info("flows stay with the stack", "rule", b.Rule, "why", b.Why)
	}
	r.service.SetPolicy(policy)
	return nil
}

// news takes what the kernel says of routes, neighbours and links.
func (r *offloadRun) news(ctx context.Context) error {
	for {
		more, err := r.feed.Deliver(ctx, r.service, newsAtOnce)
		if errors.Is(err, kernel.ErrNewsLost) {
			return fmt.Errorf("news of routes were lost: %w", err) // begin anew, with the stack
		}
		if err != nil || !more || ctx.Err() != nil {
			break
		}
	}
	for _, n := range r.service.Stale() {
		if err := r.feed.Resolve(ctx, n); err != nil {
			r.log.Debug("neighbour not asked for", "address", n.Addr, "error", err)
		}
	}
	return nil
}

// untold gives the connections of which the kernel will not tell when they end:
// those that were there before weft first listened here.
func (o *offloading) untold(ctx context.Context) (map[uint32]bool, error) {
	known, err := readUntold(o.router.Place.Run)
	if err != nil {
		return nil, err
	}
	tracking, err := o.router.kernel.Conntrack()
	if err != nil {
		return nil, err
	}
	defer tracking.Close()
	ids := map[uint32]bool{}
	var list []uint32
	err = tracking.All(ctx, func(c state.Connection) {
		if known == nil || known[c.ID] {
			ids[c.ID] = true
			list = append(list, c.ID)
		}
	})
	if err != nil {
		return nil, err
	}
	return ids, writeUntold(o.router.Place.Run, list)
}

// packetRules lists what of the ruleset keeps flows with the stack, for people
// who plan to offload. The offloader itself looks again whenever it changes.
func packetRules(ctx context.Context, k *kernel.Kernel, f *config.File) (list []string) {
	if offload.From(f) == nil {
		return nil
	}
	text, err := k.Ruleset(ctx)
	if err != nil {
		return []string{"the ruleset cannot be read: " + err.Error()}
	}
	policy, err := offload.ReadRuleset(text)
	if err != nil {
		return []string{"the ruleset cannot be understood: " + err.Error()}
	}
	for _, b := range policy.Blocks {
		list = append(list, b.String())
	}
	return list
}
