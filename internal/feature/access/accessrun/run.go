// Package accessrun is the half of subscribers that touches the system: sockets,
// user-space ends of devices, the store, RADIUS, and the tables of the datapath.
package accessrun

import (
	"context"
	"errors"
	"net/netip"

	"weft/internal/datapath"
	"weft/internal/feature/access"
	"weft/internal/runner"
	"weft/internal/state"
)

// Runner serves the subscribers of [access.NAME], and the sessions of
// [l2tp_client.NAME].
type Runner struct{ *subscribers }

// New makes the constructor of the runner. hosts answers router solicitations
// and DHCPv6 of subscribers.
func New(hosts access.HostResponder) func(context.Context, runner.Doors) runner.Runner {
	return func(_ context.Context, d runner.Doors) runner.Runner { return &Runner{newSubscribers(d, hosts)} }
}

// Apply makes the sections those of the file.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	r.set(ctx, round.File, round.Facts)
	return nil
}

// Status says which sections are served.
func (r *Runner) Status(context.Context) (list []state.Health) {
	for _, name := range r.Sections() {
		list = append(list, state.HealthOf("access", name, nil, ""))
	}
	return list
}

// Close ends the tasks. No peer gets a message: sessions go on, and the next
// process takes them over.
func (r *Runner) Close() error {
	r.wait()
	return nil
}

// Facts gives the numbers of sections, and what L2TP servers have given to
// clients here.
func Facts(_ context.Context, d runner.Doors, _ state.Questions, facts *state.Facts) (err error) {
	facts.Accesses = map[string]int{}
	if facts.Clients, err = readClients(d.Paths.Run); err != nil || d.Datapath == nil {
		return err
	}
	accesses, err := d.Datapath.Accesses()
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
