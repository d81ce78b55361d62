package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	config atomic.Pointer[offload.Config]
	cancel context.CancelFunc
	ended  chan struct{}
	ask    chan func(*offload.Service, time.Duration) // the time is that of its clock
	untold map[uint32]bool                            // connections that end without a word
	again  chan struct{}                              // programs may have come or gone, and what devices can with them: nobody tells
}

// prepare stops the offloader if f wants tables of another size, or none: they
// are about to be replaced.
func (o *offloading) prepare(f *config.File) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil {
		return
	}
	now := o.now.config.Load()
	if c := offload.From(f); c != nil && c.TableSize == now.TableSize && c.Refused == now.Refused {
		return
	}
	o.now.cancel()
	<-o.now.ended
	o.now = nil
}

// set starts the offloader, or gives it another configuration. changed: something
// in the kernel or the datapath is not what it was.
func (o *offloading) set(ctx context.Context, f *config.File, changed bool) {
	c := offload.From(f)
	if c == nil {
		return // prepare has stopped it
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != nil {
		if !o.now.config.Load().Equal(*c) {
			o.now.config.Store(c)
			_ = o.now.with(ctx, func(s *offload.Service, _ time.Duration) { s.Set(*c) })
		}
		if changed {
			select {
			case o.now.again <- struct{}{}:
			default: // it is about to look
			}
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
	now := &offloader{log: o.log, router: o.router, cancel: cancel, ended: make(chan struct{}), ask: make(chan func(*offload.Service, time.Duration)), untold: untold, again: make(chan struct{}, 1)}
	now.config.Store(c)
	o.now = now
	o.tasks.Go(func() {
		defer close(now.ended)
		now.run(ctx)
	})
}

func (o *offloading) wait() { o.tasks.Wait() }

// with runs f with the service that runs now; an error if none does.
func (o *offloading) with(ctx context.Context, f func(*offload.Service, time.Duration)) error {
	o.mu.Lock()
	now := o.now
	o.mu.Unlock()
	if now == nil {
		return errors.New("the daemon offloads nothing: weft.toml has no [offload]")
	}
	return now.with(ctx, f)
}

func (o *offloader) with(ctx context.Context, f func(*offload.Service, time.Duration)) error {
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case o.ask <- func(s *offload.Service, now time.Duration) { f(s, now); close(done) }:
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
	var doors []io.Closer
	closeAll := func() error {
		var errs []error
		for _, d := range doors {
			errs = append(errs, d.Close())
		}
		return errors.Join(errs...)
	}
	flows, err := o.router.datapath.Flows()
	if err != nil {
		return err
	}
	doors = append(doors, flows)
	tracking, err := o.router.kernel.Conntrack()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	doors = append(doors, tracking)
	resolver, err := o.router.kernel.Resolver()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	doors = append(doors, resolver)
	refusals, err := o.refusals()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	if refusals != nil {
		doors = append(doors, refusals)
	}
	feed, err := o.router.kernel.RouteFeed()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	ctx, cancel := context.WithCancel(ctx)
	s := offload.New(flows, flows, tracking, datapath.ErrFlowsFull)
	s.UDPStream(o.router.udpStream())
	run := &offloadRun{
		log: o.log, config: o.config.Load, untold: o.untold, ask: o.ask, again: o.again, flows: flows, tracking: tracking, feed: feed, refusals: refusals,
		ruleset: o.router.kernel.Ruleset, resolve: resolver.Resolve, service: s, started: time.Now(),
		passed: make(chan []state.PassedFlow), stale: make(chan []state.KernelNeighbour, staleMost), rules: rulesetLook{looked: make(chan looked)},
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { feed.Follow(ctx) })
	tasks.Go(func() { tracking.Follow(ctx) })
	tasks.Go(func() { run.listen(ctx) })
	flows.Refuse(0)
	if refusals != nil {
		s.Refuse(flows)
		tasks.Go(func() { refusals.Follow(ctx) })
	}
	err = run.loop(ctx)
	flows.Bump() // nobody watches over what is offloaded
	flows.Refuse(0)
	cancel()
	err = errors.Join(err, closeAll())
	tasks.Wait()
	feed.Close()
	return err
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
func packetRules(ctx context.Context, k *kernel.Kernel, f *config.File) (list, refusals []string) {
	if offload.From(f) == nil {
		return nil, nil
	}
	text, err := k.Ruleset(ctx)
	if err != nil {
		return []string{"the ruleset cannot be read: " + err.Error()}, nil
	}
	policy, refusable, err := offload.ReadRuleset(text)
	if err != nil {
		return []string{"the ruleset cannot be understood: " + err.Error()}, nil
	}
	for _, b := range policy.Blocks {
		list = append(list, b.String())
	}
	return list, refusable.Rules()
}

// udpStream is how long connection tracking remembers UDP that goes on; 0: it does
// not say.
func (r *Router) udpStream() time.Duration {
	const name = "net/netfilter/nf_conntrack_udp_timeout_stream"
	n, err := strconv.Atoi(r.kernel.Sysctls([]string{name})[name])
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// CheckOffload says what of f's [offload] cannot be offloaded in the namespace of
// the process, and why.
func CheckOffload(ctx context.Context, f *config.File) ([]state.Problem, error) {
	if offload.From(f) == nil {
		return nil, nil
	}
	r, err := Look()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	facts, err := r.facts(f)
	if err != nil {
		return nil, err
	}
	facts.PacketRules, facts.RefusalRules = packetRules(ctx, r.kernel, f)
	problems := offload.Plan(f, facts).Problems
	for i, name := range offload.From(f).Interfaces {
		path, device := fmt.Sprintf("offload.interfaces[%d]", i), f.Interface(name).Device
		if _, there := facts.Link(device); !there {
			then := "weft run does not start without it"
			if strings.HasPrefix(device, "ppp") {
				then = "nothing of it is offloaded until there is"
			}
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, What: fmt.Sprintf("there is no device %s here: %s", device, then),
				Remedy: "make the device, or correct its name",
			})
		}
	}
	state.SortProblems(problems)
	return problems, nil
}
