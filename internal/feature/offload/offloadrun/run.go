// Package offloadrun runs flow offload: it learns connections, offloads them and takes
// them back.
package offloadrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"weft/internal/config"
	"weft/internal/datapath/flowtable"
	"weft/internal/feature/offload"
	"weft/internal/kernel"
	"weft/internal/kernel/netfilter"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/plan"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
)

// Runner keeps one offloader running while weft.toml has [offload].
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*offloading]
	ask   atomic.Pointer[task.Mailbox[asked]] // of the offloader that runs
}

// asked is the service, and the time by its clock.
type asked struct {
	service *offload.Service
	now     time.Duration
}

// offloading is what the runner's loop owns.
type offloading struct {
	now   *offloader // nil: none runs
	fault error      // why none does
	used  bool
}

// offloader learns flows and takes them back.
type offloader struct {
	*task.Task
	doors       runner.Doors
	config      atomic.Pointer[offload.Config]
	ask         *atomic.Pointer[task.Mailbox[asked]]
	unannounced map[uint32]bool // connections whose end the kernel does not announce
	again       task.Wake       // programs may have come or gone, and what devices can with them: no event says so
}

// New returns the constructor of the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{doors: d, loop: task.StartLoop(ctx, "offload", &offloading{}, nil)}
}

// Prepare stops the offloader if the next file has no [offload] or another table size:
// its tables are about to be replaced.
func (r *Runner) Prepare(next *config.File) {
	_ = r.loop.Ask(context.Background(), func(s *offloading) {
		if s.now == nil {
			return
		}
		now := s.now.config.Load()
		if c := offload.From(next); c == nil || c.TableSize != now.TableSize || c.Refused != now.Refused {
			s.stop()
		}
	})
}

// Apply starts the offloader, or changes its configuration.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	c := offload.From(round.File)
	var running *offloader
	changed := false
	err := r.loop.Do(ctx, func(s *offloading) (err error) {
		s.used = c != nil
		if s.fault = nil; c == nil {
			s.stop()
			return nil
		}
		if s.now != nil {
			changed = !s.now.config.Load().Equal(*c)
			running = s.now
			s.now.config.Store(c)
			return nil
		}
		s.now, s.fault = r.start(ctx, c)
		return s.fault
	})
	if running == nil {
		return err
	}
	if changed {
		_ = r.with(ctx, func(a asked) { a.service.Set(*c) }) // one that begins now reads it itself
	}
	if round.Changed {
		running.again.Set()
	}
	return err
}

func (r *Runner) start(ctx context.Context, c *offload.Config) (*offloader, error) {
	// the setting that makes the kernel announce ends was just made: what is there
	// now may be older, what comes later is not
	unannounced, err := unannounced(ctx, r.doors)
	if err != nil {
		return nil, fmt.Errorf("no flow is offloaded: cannot read connection tracking: %w", err)
	}
	o := &offloader{doors: r.doors, ask: &r.ask, unannounced: unannounced, again: task.NewWake()}
	o.config.Store(c)
	o.Task = task.Keep(ctx, task.Kept{Name: "offload", Log: r.doors.Log, Retry: task.Retry{First: time.Second, Most: 30 * time.Second}, Run: o.run})
	return o, nil
}

func (s *offloading) stop() {
	if s.now != nil {
		s.now.Stop()
		s.now = nil
	}
}

// Status is the health of flow offload.
func (r *Runner) Status(ctx context.Context) []state.Health {
	list := task.Get(ctx, r.loop, func(s *offloading) []state.Health {
		if !s.used {
			return nil
		}
		fault := s.fault
		if s.now != nil {
			fault = s.now.Fault()
		}
		return []state.Health{state.HealthOf("offload", "", fault, "the stack forwards all flows; weft tries again by itself")}
	})
	if status, err := r.Offload(ctx); err == nil && len(list) > 0 {
		list = status.Health(list[0])
	}
	return list
}

// Close stops the offloader: the stack forwards all flows.
func (r *Runner) Close() error {
	task.Close(r.loop).stop()
	return nil
}

// with runs f with the service that runs now; an error if none does.
func (r *Runner) with(ctx context.Context, f func(asked)) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	box := r.ask.Load()
	if box == nil {
		if task.Get(ctx, r.loop, func(s *offloading) bool { return s.used }) {
			return errors.New("flow offload is not running; the log has the reason")
		}
		return errors.New("flow offload is off: weft.toml has no [offload]")
	}
	if err := box.Ask(ctx, f); !errors.Is(err, task.ErrEnded) {
		return err
	}
	return errors.New("flow offload has just stopped")
}

// Offload returns the offloader's status, for the API.
func (r *Runner) Offload(ctx context.Context) (status offload.Status, err error) {
	err = r.with(ctx, func(a asked) { status = a.service.Status(a.now) })
	return status, err
}

// Ages returns the time since flows were offloaded, for the API.
func (r *Runner) Ages(ctx context.Context, flows []offload.FlowPair) (ages []int, err error) {
	err = r.with(ctx, func(a asked) { ages = a.service.Ages(flows, a.now) })
	return ages, err
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

// run offloads until ctx ends; meanwhile the stack has what it has not learnt.
func (o *offloader) run(ctx context.Context, works func()) (err error) {
	var doors []io.Closer
	closeAll := func() error {
		var errs []error
		for _, d := range doors {
			errs = append(errs, d.Close())
		}
		return errors.Join(errs...)
	}
	flows, err := flowtable.Of(o.doors.Datapath).Flows()
	if err != nil {
		return err
	}
	doors = append(doors, flows)
	tracking, err := netfilter.OpenConntrack()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	doors = append(doors, tracking)
	resolver, err := rtnetlink.OpenResolver()
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
	feed, err := rtnetlink.OpenFeed()
	if err != nil {
		return errors.Join(err, closeAll())
	}
	s := offload.New(flows, flows, tracking, flowtable.ErrFlowsFull)
	s.UDPStream(udpStream(o.doors.Kernel))
	box := task.NewMailbox[asked]()
	run := &offloadRun{
		log: o.doors.Log, config: o.config.Load, unannounced: o.unannounced, ask: box, again: o.again, flows: flows, tracking: tracking, feed: feed, refusals: refusals,
		ruleset: netfilter.Ruleset, resolve: resolver.Resolve, service: s, started: time.Now(), works: works,
		passed: make(chan []state.PassedFlow), stale: make(chan []state.KernelNeighbour, staleMost), rules: rulesetLook{looked: make(chan looked)},
	}
	g := task.NewGroup(ctx)
	g.Go(func(ctx context.Context) error { feed.Follow(ctx); return nil })
	g.Go(func(ctx context.Context) error { tracking.Follow(ctx); return nil })
	g.Go(func(ctx context.Context) error { run.listen(ctx); return nil })
	flows.Refuse(0)
	if refusals != nil {
		s.Refuse(flows)
		g.Go(func(ctx context.Context) error { refusals.Follow(ctx); return nil })
	}
	o.ask.Store(&box)
	err = task.Call(func() error { return run.loop(g.Context()) })
	box.Close()
	o.ask.Store(nil)
	flows.Bump() // nothing watches over what is offloaded
	flows.Refuse(0)
	g.Cancel()
	err = errors.Join(err, closeAll(), g.Wait())
	feed.Close()
	return err
}

// packetRules lists what of the ruleset keeps flows with the stack, for people
// who plan to offload. The offloader itself looks again whenever it changes.
func packetRules(ctx context.Context, f *config.File, facts *state.Facts) {
	if offload.From(f) == nil {
		return
	}
	text, err := netfilter.Ruleset(ctx)
	if err != nil {
		facts.PacketRules = []string{"the ruleset cannot be read: " + err.Error()}
		return
	}
	policy, refusable, err := readRuleset(text)
	if err != nil {
		facts.PacketRules = []string{"the ruleset cannot be understood: " + err.Error()}
		return
	}
	for _, b := range policy.Blocks {
		facts.PacketRules = append(facts.PacketRules, b.String())
	}
	facts.RefusalRules, facts.Untracked = refusable.Rules(), policy.Untracked()
}

// udpStream is how long connection tracking remembers UDP that goes on; 0: it does
// not say.
func udpStream(k *kernel.Kernel) time.Duration {
	const name = "net/netfilter/nf_conntrack_udp_timeout_stream"
	n, err := strconv.Atoi(k.Sysctls([]string{name})[name])
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// Inspect adds the rules of the ruleset that keep flows with the stack, for plans that
// are shown.
func Inspect(ctx context.Context, _ runner.Doors, f *config.File, facts *state.Facts) {
	packetRules(ctx, f, facts)
}

// Check returns the reasons for which parts of the file's [offload] cannot be offloaded
// on this host. facts are complete, and inspected.
func Check(f *config.File, facts state.Facts) []state.Problem {
	if offload.From(f) == nil {
		return nil
	}
	_, problems := plan.Desire([]state.Part{offload.Plan(f, facts)}, facts, offload.Audit)
	for i, name := range offload.From(f).Interfaces {
		path, device := fmt.Sprintf("offload.interfaces[%d]", i), f.Interface(name).Device
		if _, there := facts.Link(device); !there {
			problems = append(problems, state.Problem{
				Severity: state.Warning, Pos: f.Position(path), Path: path, What: fmt.Sprintf("device %s does not exist: its flows are not offloaded", device),
				Remedy: "create the device, or correct its name",
			})
		}
	}
	state.SortProblems(problems)
	return problems
}
