// Package lnsrun runs the subscribers' engine: sockets, user-space ends of devices,
// the store, RADIUS, and the tables of the datapath.
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
	state  *subscribers // owned by the loop until it has ended
}

// New returns the constructor of the runner. hosts answers router solicitations and
// DHCPv6 messages of subscribers.
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
	// the disk's loop outlives the context: the last change set is still written
	s.disk = task.StartLoop(context.WithoutCancel(ctx), "subscribers' files", files, (*disk).tick)
	loop := task.Keep(ctx, task.Kept{Name: "subscribers", Log: d.Log, Run: s.run})
	return &Runner{s.box, loop, s.disk, cancel, s}
}

// Apply configures the sections as in the file.
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

// Status returns the health of each section and of the routes to subscribers.
func (r *Runner) Status(ctx context.Context) (list []state.Health) {
	fault := errors.Join(r.loop.Fault(), r.state.guard.Fault())
	for _, name := range r.Sections(ctx) {
		list = append(list, state.HealthOf("lns", name, fault, "weft tries again by itself"))
	}
	var unrouted error
	ask := func(s *subscribers) {
		unrouted = s.routes.fault()
		for i, h := range list {
			if client := s.accounts.clients[h.Name]; client != nil && h.Condition == state.Working {
				list[i] = state.HealthOf("lns", h.Name, client.Fault(), "see why the servers do not answer: weft show radius")
			}
		}
	}
	if err := r.box.Ask(ctx, ask); err != nil {
		return list // the fault says why the loop does not answer
	}
	if unrouted != nil {
		list = append(list, state.HealthOf("lns", "routes", unrouted, "remove the host's route to the same prefix, or assign other prefixes to subscribers"))
	}
	return list
}

// Close ends the tasks. Peers get no message: sessions continue, and the next process
// takes them over.
func (r *Runner) Close() error {
	r.cancel()
	r.loop.Stop()
	r.state.tasks.Wait()
	files := task.Close(r.disk)
	r.state.finish(files)
	files.close()
	return nil
}

// Facts returns the numbers of sections, and the addresses and prefixes that clients
// have from their L2TP servers.
func Facts(_ context.Context, d runner.Doors, _ state.Questions, facts *state.Facts) (err error) {
	facts.LNSes = map[string]int{}
	if facts.Clients, err = readClients(d.Paths.Run); err != nil || d.Datapath == nil {
		return err
	}
	accesses, err := subscribertable.Of(d.Datapath).LNSes()
	if errors.Is(err, datapath.ErrOtherVersion) {
		return nil // the loaded programs are about to be replaced
	}
	for _, a := range accesses {
		facts.LNSes[a.Name] = a.ID
	}
	return err
}

// Unload removes the routes to subscribers.
func Unload(d runner.Doors) error {
	return d.Kernel.UnrouteSubscribers(func(netip.Prefix) bool { return false })
}
