// Package lnsrun is the half of subscribers that touches the system: sockets,
// user-space ends of devices, the store, RADIUS, and the tables of the datapath.
//
//	readers of sockets and taps --+
//	password checks, RADIUS ------+-- ask --> loop (subscribers) --> datapath, routes, sends
//	weft show, kick, capture -----+               |        ^
//	                                   change set v        | saved
//	                                         loop (disk) --> files
package lnsrun

import (
	"context"
	"errors"
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/datapath/subscribertable"
	"weft/internal/feature/lns"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// Runner serves the subscribers of [lns.NAME], and the sessions of
// [l2tp_client.NAME].
type Runner struct {
	box    task.Mailbox[*subscribers]
	loop   *task.Task
	disk   *task.Loop[*disk]
	cancel context.CancelFunc
	state  *subscribers // the loop's, until it has ended
}

// New makes the constructor of the runner. hosts answers router solicitations
// and DHCPv6 of subscribers.
func New(hosts subscriber.HostResponder) func(context.Context, runner.Doors) runner.Runner {
	return func(ctx context.Context, d runner.Doors) runner.Runner { return start(ctx, d, hosts) }
}

func start(ctx context.Context, d runner.Doors, hosts subscriber.HostResponder) *Runner {
	ctx, cancel := context.WithCancel(ctx)
	s := newSubscribers(ctx, d, hosts)
	files := newDisk(d.Log, d.Paths.Run)
	files.changed = func(users map[string][]lns.User) {
		_ = s.box.Ask(ctx, func(s *subscribers) { s.follow(users) }) // a loop that has ended needs no users
	}
	// the disk's loop outlives the context: what the other one hands it last is written
	s.disk = task.StartLoop(context.WithoutCancel(ctx), "subscribers' files", files, (*disk).tick)
	loop := task.Keep(ctx, task.Kept{Name: "subscribers", Log: d.Log, Run: s.run})
	return &Runner{s.box, loop, s.disk, cancel, s}
}

// Apply makes the sections those of the file.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	servers, clients := lns.Settings(round.File, round.Facts)
	begun := false
	if err := r.box.Ask(ctx, func(s *subscribers) { begun = s.begun }); err != nil {
		return err
	}
	if len(servers)+len(clients) == 0 && !begun {
		return nil
	}
	var k kept
	if err := r.disk.Ask(ctx, func(d *disk) { k = d.open(round.File) }); err != nil {
		return err
	}
	return r.box.Ask(ctx, func(s *subscribers) { s.set(s.ctx, round.File, round.Facts, k) })
}

// Status says which sections are served.
func (r *Runner) Status(ctx context.Context) (list []state.Health) {
	fault := errors.Join(r.loop.Fault(), r.state.guard.Fault())
	for _, name := range r.Sections(ctx) {
		list = append(list, state.HealthOf("lns", name, fault, "weft tries again by itself"))
	}
	var unrouted error
	if err := r.box.Ask(ctx, func(s *subscribers) { unrouted = s.routes.fault() }); err != nil {
		return list // the fault says why the loop does not answer
	}
	if unrouted != nil {
		list = append(list, state.HealthOf("lns", "routes", unrouted, "remove the host's route, or give subscribers other prefixes"))
	}
	return list
}

// Close ends the tasks. No peer gets a message: sessions go on, and the next
// process takes them over.
func (r *Runner) Close() error {
	r.cancel()
	r.loop.Stop()
	r.state.tasks.Wait()
	files := task.Close(r.disk)
	r.state.finish(files)
	files.close()
	return nil
}

// Facts gives the numbers of sections, and what L2TP servers have given to
// clients here.
func Facts(_ context.Context, d runner.Doors, _ state.Questions, facts *state.Facts) (err error) {
	facts.Accesses = map[string]int{}
	if facts.Clients, err = readClients(d.Paths.Run); err != nil || d.Datapath == nil {
		return err
	}
	accesses, err := subscribertable.Of(d.Datapath).Accesses()
	if errors.Is(err, datapath.ErrOtherVersion) {
		return nil // what is loaded is about to be replaced
	}
	for _, a := range accesses {
		facts.Accesses[a.Name] = a.ID
	}
	return err
}

// Unload takes the routes of subscribers away.
func Unload(d runner.Doors) error {
	return d.Kernel.UnrouteSubscribers(func(netip.Prefix) bool { return false })
}
