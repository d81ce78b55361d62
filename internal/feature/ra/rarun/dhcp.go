package rarun

// The DHCPv6 server of a link: its socket, its leases, and the routes to what it
// delegates.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"weft/internal/dhcp6io"
	"weft/internal/feature/ra"
	"weft/internal/task"
	"weft/wire/dhcp6"
)

// setUnkept notes, and logs, why leases are not kept in their file.
func (a *link) setUnkept(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.unkept == nil || a.unkept.Error() != err.Error()) {
		a.doors.Log.Warn("DHCPv6 leases are not stored; a restart forgets them", "device", a.device, "error", err)
	}
	a.unkept = err
}

// leasesFault returns why leases are not kept.
func (a *link) leasesFault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unkept == nil {
		return nil
	}
	return fmt.Errorf("leases are not kept over a restart: %w", a.unkept)
}

// openDHCP opens socket and leases if the settings want them.
func (a *link) openDHCP(ctx context.Context, g *task.Group) (*dhcp6io.Conn, *requests, error) {
	a.closeStore()
	a.mu.Lock()
	s := a.ra.Settings()
	a.mu.Unlock()
	if s.DHCPv6 == ra.DHCPOff {
		return nil, nil, nil
	}
	store, kept, unkept := openLeases(s)
	a.setUnkept(unkept)
	clients, err := dhcp6io.Listen(ctx, a.device)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	a.mu.Lock()
	a.store, a.dhcp = store, ra.NewDHCP(s, store, kept, time.Now())
	a.mu.Unlock()
	for _, space := range s.Delegate {
		err := a.doors.Kernel.HoldSpace(space)
		a.setRouted(space, err)
		if err != nil {
			a.doors.Log.Warn("cannot add the unreachable route for a delegation prefix; packets for unused parts of it may loop", "error", err)
		}
	}
	for _, l := range kept {
		a.route([]ra.Change{{Lease: l}})
	}
	waiting := newRequests(kept)
	g.Go(func(context.Context) error {
		for {
			message, from, err := clients.Receive()
			if err != nil {
				return err
			}
			waiting.put(message, from)
		}
	})
	return clients, waiting, nil
}

func (a *link) closeStore() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store != nil {
		if err := a.store.Close(); err != nil {
			a.doors.Log.Warn("cannot close the file of DHCPv6 leases", "error", err)
		}
	}
	a.store, a.dhcp = nil, nil
}

func (a *link) answer(clients *dhcp6io.Conn, waiting *requests, q question) {
	waiting.taken(q)
	m, err := dhcp6.Parse(q.message)
	if err != nil {
		a.doors.Log.Debug("not understood", "device", a.device, "from", q.from.String(), "error", err)
		return
	}
	reply, changes := a.handle(m, q.from)
	waiting.note(changes)
	a.route(changes) // before the client hears that it may use it
	if reply == nil {
		return
	}
	bytes, err := reply.Marshal()
	if err == nil {
		err = clients.Send(bytes, q.from)
	}
	if err != nil {
		a.doors.Log.Debug("not answered", "device", a.device, "error", err)
	}
}

func (a *link) handle(m *dhcp6.Message, from netip.Addr) (*dhcp6.Message, []ra.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dhcp.Handle(m, from, time.Now())
}

// route follows leases of prefixes with routes.
func (a *link) route(changes []ra.Change) {
	for _, c := range changes {
		if c.Lease.Kind != ra.KindPrefix {
			continue
		}
		var err error
		if c.Gone {
			err = a.doors.Kernel.Undelegate(c.Lease.Prefix)
		} else {
			err = a.doors.Kernel.Delegate(c.Lease.Prefix, c.Lease.Peer, a.device)
		}
		a.setRouted(c.Lease.Prefix, err)
		if err != nil {
			a.doors.Log.Warn("cannot add the route of a delegated prefix", "prefix", c.Lease.Prefix.String(), "error", err)
		}
	}
}

// setRouted remembers whether the route of a prefix could be set.
func (a *link) setRouted(p netip.Prefix, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		delete(a.unrouted, p)
	case a.unrouted == nil:
		a.unrouted = map[netip.Prefix]error{p: err}
	default:
		a.unrouted[p] = err
	}
}

// routeFault returns which delegated prefix is not routed, nil if all are.
func (a *link) routeFault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range slices.SortedFunc(maps.Keys(a.unrouted), netip.Prefix.Compare) {
		return fmt.Errorf("%s, delegated by DHCPv6, is not routed: %w", p, a.unrouted[p])
	}
	return nil
}
