package daemon

import (
	"context"
	"fmt"

	"weft/internal/feature/access"
	"weft/internal/slowpath"
	"weft/internal/state"
)

// Subscribe gives an instance sessions, as another router has them: those of
// sections that it has too. Nobody speaks for it: control messages stay
// unanswered.
func (i *Instance) Subscribe(t state.AccessTables) error {
	if len(t.Sessions) == 0 || len(access.Made(i.file)) == 0 {
		return nil
	}
	mine, err := i.router.datapath.Accesses()
	if err != nil {
		return err
	}
	names, ids, devices := map[int]string{}, map[string]int{}, map[int]state.Access{}
	for _, a := range t.Accesses {
		names[a.ID] = a.Name
	}
	for _, a := range mine {
		ids[a.Name], devices[a.ID] = a.ID, a
	}
	servers, _ := access.Settings(i.file, state.Facts{})
	routes := subscriberRoutes{covered: coveredBy(servers)}
	var sessions []state.AccessSession
	for _, s := range t.Sessions {
		id, ok := ids[names[s.Access]]
		if !ok {
			continue
		}
		s.Access = id
		sessions = append(sessions, s)
		for _, p := range routes.needs(s) {
			if err := i.router.kernel.RouteSubscriber(p, devices[id].Device); err != nil {
				return fmt.Errorf("route %s to its subscriber: %w", p, err)
			}
		}
	}
	tables, err := i.router.datapath.Subscribers()
	if err != nil {
		return err
	}
	i.closers = append(i.closers, func() { _ = tables.Close() })
	return tables.Put(t.Tunnels, sessions)
}

// openTaps reads what goes the slow path of subscribers, and forgets it.
func (i *Instance) openTaps(ctx context.Context) error {
	accesses, err := i.router.datapath.Accesses()
	if err != nil {
		return err
	}
	for _, a := range accesses {
		d, err := slowpath.Open(a.Device, a.MAC)
		if err != nil {
			return fmt.Errorf("open the slow path of %s: %w", a.Device, err)
		}
		i.taps = append(i.taps, d)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = d.Serve(ctx, func([]byte, state.Arrival) []slowpath.Packet { return nil }) // it ends with the instance
		}()
		i.closers = append(i.closers, func() {
			<-done
			_ = d.Close()
		})
	}
	return nil
}
