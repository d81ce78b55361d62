package lnsrun

import (
	"context"
	"errors"
	"fmt"

	"weft/internal/config"
	"weft/internal/datapath/subscribertable"
	"weft/internal/feature/lns"
	"weft/internal/runner"
	"weft/internal/slowpath"
	"weft/internal/state"
	"weft/internal/task"
)

// Subscribe writes the sessions of another router's datapath to this one: those of
// sections that the file has too. No engine runs, so control messages get no answer.
// close closes the tables.
func Subscribe(d runner.Doors, f *config.File, t state.LNSTables) (close func() error, err error) {
	close = func() error { return nil }
	if len(t.Sessions) == 0 || len(lns.Made(f)) == 0 {
		return close, nil
	}
	mine, err := subscribertable.Of(d.Datapath).LNSes()
	if err != nil {
		return close, err
	}
	names, ids, devices := map[int]string{}, map[string]int{}, map[int]state.LNS{}
	for _, a := range t.LNSes {
		names[a.ID] = a.Name
	}
	for _, a := range mine {
		ids[a.Name], devices[a.ID] = a.ID, a
	}
	servers, _ := lns.Settings(f, state.Facts{})
	routes := subscriberRoutes{covered: coveredBy(servers)}
	var sessions []state.L2TPSession
	for _, s := range t.Sessions {
		id, ok := ids[names[s.LNS]]
		if !ok {
			continue
		}
		s.LNS = id
		sessions = append(sessions, s)
		for _, p := range routes.needs(s) {
			if err := d.Kernel.RouteSubscriber(p, devices[id].Device); err != nil {
				return close, fmt.Errorf("route %s to its subscriber: %w", p, err)
			}
		}
	}
	tables, err := subscribertable.Of(d.Datapath).Subscribers()
	if err != nil {
		return close, err
	}
	return tables.Close, tables.Put(t.Tunnels, sessions)
}

// Taps read the packets that take the subscribers' slow path, and discard them.
type Taps struct {
	devices []*slowpath.Device
	tasks   *task.Group
}

// OpenTaps opens the devices of all sections.
func OpenTaps(ctx context.Context, d runner.Doors) (*Taps, error) {
	accesses, err := subscribertable.Of(d.Datapath).LNSes()
	if err != nil {
		return nil, err
	}
	t := &Taps{tasks: task.NewGroup(ctx)}
	for _, a := range accesses {
		device, err := slowpath.Open(a.Device, a.MAC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the slow path of %s: %w", a.Device, err), t.Close())
		}
		t.devices = append(t.devices, device)
		t.tasks.Go(func(ctx context.Context) error {
			return device.Serve(ctx, func([]byte, state.Arrival) []slowpath.Packet { return nil })
		})
	}
	return t, nil
}

// Served is the number of packets that were read.
func (t *Taps) Served() (n uint64) {
	for _, d := range t.devices {
		n += d.Served()
	}
	return n
}

// Close closes them.
func (t *Taps) Close() error {
	t.tasks.Cancel()
	_ = t.tasks.Wait() // they end with the context
	var errs []error
	for _, d := range t.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
