package offloadrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"weft/internal/feature/offload"
	"weft/internal/kernel/netfilter"
	"weft/internal/kernel/nlconn"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/state"
	"weft/internal/task"
)

// offloadRun is one run of an offloader, with its doors open.
type offloadRun struct {
	log         *slog.Logger
	config      func() *offload.Config
	unannounced map[uint32]bool
	ask         task.Mailbox[asked]
	works       func()
	again       task.Wake // the devices are to be looked at again
	flows       offloadFlows
	tracking    offloadTracking
	feed        offloadFeed
	refusals    *netfilter.Refusals // nil: they are not asked for
	ruleset     func(context.Context) ([]byte, error)
	resolve     func(context.Context, state.KernelNeighbour) error
	service     *offload.Service
	started     time.Time
	passed      chan []state.PassedFlow
	stale       chan []state.KernelNeighbour
	turned      atomic.Int64 // by the clock: when news were last taken
	rules       rulesetLook
	offers      offers
	tasks       *task.Group
}

// offloadFlows is what a run does with the flows' tables besides the service.
type offloadFlows interface {
	Passed(list []state.PassedFlow, most int) ([]state.PassedFlow, error)
	Lease(d time.Duration, minimum int)
	Bump()
}

// offloadTracking is the news of connection tracking and of the ruleset.
type offloadTracking interface {
	EndsWake() <-chan struct{}
	Ended(most int, use func(state.Connection)) error
	RulesetWake() <-chan struct{}
	RulesetChanged() (bool, error)
	Behind() time.Duration
}

// offloadFeed is the news of routes, neighbours and links.
type offloadFeed interface {
	Wake() <-chan struct{}
	Deliver(ctx context.Context, sink rtnetlink.Sink, most int) (more bool, err error)
	DumpLinks(ctx context.Context, sink rtnetlink.Sink) error
	Behind() time.Duration
}

// refusals opens the news of what the ruleset refuses, if that is asked for.
func (o *offloader) refusals() (*netfilter.Refusals, error) {
	if !o.config.Load().Refused {
		return nil, nil
	}
	return netfilter.OpenRefusals()
}

// refusalsWake has something after the ruleset refused packets.
func (r *offloadRun) refusalsWake() <-chan struct{} {
	if r.refusals == nil {
		return nil
	}
	return r.refusals.Wake()
}

// refused takes what the ruleset has refused.
func (r *offloadRun) refused() {
	var list []state.RefusedPacket
	r.refusals.Take(endsAtOnce, func(p state.RefusedPacket) { list = append(list, p) })
	r.service.Refused(list, r.clock())
}

// eventsAtOnce bounds the events of routes that are taken between two looks at
// what ended.
const eventsAtOnce = 256

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
				r.log.Error("cannot learn flows", "error", err)
			}
			return
		}
	}
}

func (r *offloadRun) clock() time.Duration { return time.Since(r.started) }

func (r *offloadRun) begin(ctx context.Context) error {
	r.service.Set(*r.config())
	for id := range r.unannounced {
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
	r.turned.Store(int64(r.clock()))
	r.works()
	r.tasks = task.NewGroup(ctx)
	ctx = r.tasks.Context()
	defer func() { _ = r.tasks.Stop() }()
	r.tasks.Go(func(ctx context.Context) error { r.watch(ctx); return nil })
	r.tasks.Go(func(ctx context.Context) error { r.confirm(ctx); return nil })
	lease := time.NewTicker(leaseEvery)
	defer lease.Stop()
	sweep := time.After(flowsEvery)
	r.rules.due = time.After(0)
	r.flows.Lease(leaseFor, r.config().MinimumPackets)
	r.offers.pace = offersFirst
	var due <-chan time.Time // refused flows that wait
	for {
		if due == nil && r.service.Waiting() {
			due = time.After(refusedAfter)
		}
		var err error
		select {
		case <-ctx.Done():
			return r.tasks.Stop()
		case <-lease.C:
			r.flows.Lease(leaseFor, r.config().MinimumPackets)
		case <-r.tracking.EndsWake():
		case <-r.tracking.RulesetWake():
		case <-r.refusalsWake():
			r.refused()
		case <-due:
			due = nil
			if err = r.events(ctx); err == nil {
				err = r.service.RefuseDue(ctx, r.clock())
			}
		case <-r.rules.due:
			r.look(ctx)
		case l := <-r.rules.looked:
			if err = r.urgent(); err == nil {
				r.take(ctx, l)
			}
		case <-r.feed.Wake():
			err = r.events(ctx)
		case list := <-r.passedWhenIdle():
			r.offers.waiting = list
			err = r.offer(ctx)
		case <-r.offers.turn():
			err = r.offer(ctx)
		case <-sweep:
			pause, more := flowsEvery, false
			if more, err = r.service.Sweep(ctx, r.clock()); more {
				pause = 0 // all others get their turn between
			}
			sweep = time.After(pause)
		case <-r.again:
			err = r.feed.DumpLinks(ctx, r.service)
		case f := <-r.ask.Asked():
			f(asked{r.service, r.clock()})
		}
		if err == nil {
			err = r.urgent()
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

// offers are flows that are to be looked at, some at a time: how many take how
// long is for the processor to say.
type offers struct {
	waiting []state.PassedFlow
	pace    int // how many at a time
}

const (
	offersFirst = 16
	offersLeast = 8
	// offersFor is how long a turn may take: a fraction of overdue.
	offersFor = 50 * time.Millisecond
)

// always is ready.
var always = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// turn is ready while some wait.
func (o *offers) turn() <-chan time.Time {
	if len(o.waiting) == 0 {
		return nil
	}
	return always
}

// passedWhenIdle returns the news of flows when all of before are done with.
func (r *offloadRun) passedWhenIdle() <-chan []state.PassedFlow {
	if len(r.offers.waiting) > 0 {
		return nil
	}
	return r.passed
}

// offer handles waiting flows for a limited time, then lets other work run. On a weak
// router a thousand flows at once would take seconds, in which no end of a connection is
// read: watch would take all flows back, also those just learnt, again and again.
func (r *offloadRun) offer(ctx context.Context) error {
	if err := r.urgent(); err != nil {
		return err
	}
	o := &r.offers
	n := min(o.pace, len(o.waiting))
	begin := r.clock()
	err := r.service.Offer(ctx, o.waiting[:n], begin)
	o.waiting = o.waiting[n:]
	switch took := r.clock() - begin; {
	case took > offersFor:
		o.pace = max(offersLeast, int(time.Duration(n)*offersFor/took))
	case took < offersFor/2 && n == o.pace:
		o.pace = min(2*n, offersAtOnce)
	}
	return err
}

// refusedAfter is the pause before refused flows are looked at: some at a time.
const refusedAfter = 60 * time.Millisecond

// urgent takes what ends flows: it comes before all else, between any two steps.
func (r *offloadRun) urgent() error {
	r.turned.Store(int64(r.clock()))
	changed, err := r.tracking.RulesetChanged()
	if changed {
		r.service.RulesetChanged()
		r.rules.changed()
	}
	return errors.Join(err, r.ends())
}

// ends takes back the flows of connections that ended.
func (r *offloadRun) ends() error {
	var list []state.Connection
	err := r.tracking.Ended(endsAtOnce, func(c state.Connection) { list = append(list, c) })
	if errors.Is(err, nlconn.ErrEventsLost) {
		r.log.Warn("events of ended connections were lost; all flows return to the stack and are learnt again")
		r.service.AllMayHaveEnded()
		err = nil
	}
	return errors.Join(err, r.service.Ended(list...))
}

// news takes what the kernel says of routes, neighbours and links.
func (r *offloadRun) events(ctx context.Context) error {
	for {
		more, err := r.feed.Deliver(ctx, r.service, eventsAtOnce)
		if errors.Is(err, nlconn.ErrEventsLost) {
			return fmt.Errorf("events of routes were lost: %w", err) // start again, with all flows in the stack
		}
		if err != nil {
			return err
		}
		if !more || ctx.Err() != nil {
			break
		}
		if err := r.urgent(); err != nil {
			return err
		}
	}
	if list := r.service.Stale(); len(list) > 0 {
		select {
		case r.stale <- list:
		default:
			r.log.Debug("neighbours are not probed: too many wait", "neighbours", len(list))
		}
	}
	return nil
}

// staleMost bounds the lists of neighbours that wait to be confirmed.
const staleMost = 256

// confirm has the kernel probe neighbours. The kernel may need seconds for it, while
// another process holds its lock on links; events must not wait for that.
func (r *offloadRun) confirm(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case list := <-r.stale:
			for _, n := range list {
				if err := r.resolve(ctx, n); err != nil {
					r.log.Debug("cannot probe neighbour", "address", n.Addr, "error", err)
				}
			}
		}
	}
}

const (
	// overdue is how long news may wait before all flows are the stack's.
	overdue    = 300 * time.Millisecond
	watchEvery = 100 * time.Millisecond
)

// watch ensures that no flow outlives its connection, also while the loop waits: if the
// loop does not take waiting events, watch returns all flows to the stack. The loop
// learns them again.
func (r *offloadRun) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		stuck := r.clock() - time.Duration(r.turned.Load())
		if min(stuck, max(r.tracking.Behind(), r.feed.Behind())) < overdue {
			said = false
			continue
		}
		r.flows.Bump()
		if !said {
			r.log.Warn("events waited for too long; all flows return to the stack and are learnt again", "waiting", stuck.Round(time.Millisecond))
			said = true
		}
	}
}
