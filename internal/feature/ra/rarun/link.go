package rarun

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/internal/lan"
	"weft/internal/runner"
	"weft/internal/task"
	"weft/wire/dhcp6"
)

// link serves one link. Its task owns the sockets; the state machines are behind
// the lock, because others look at them, also while the task waits to be tried
// again.
type link struct {
	*task.Task
	doors   runner.Doors
	device  string
	changed task.Wake // settings are new

	mu       sync.Mutex
	ra       *ra.Advertiser
	dhcp     *ra.DHCP // nil while there is none
	store    *leaseFile
	fault    string // why it does not serve now
	unkept   error  // why leases are not kept in their file
	since    time.Time
	said     bool // the fault has been logged
	guard    task.Guard
	unrouted map[netip.Prefix]error // delegated, or to be delegated, and not routed
}

// forgiven is how long a link may not be served before that is worth a word:
// a device that has just come up checks its link-local address for a second or
// two (RFC 4862 section 5.4).
const forgiven = 5 * time.Second

func random(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

func newLink(d runner.Doors, settings ra.Settings, was announced) *link {
	deprecated := was.Deprecated
	now := time.Now()
	// what another process announced and this one does not
	for _, p := range was.Settings.Prefixes {
		deprecated = append(deprecated, ra.Deprecated{Prefix: p, Until: now.Add(min(p.Valid, 2*time.Hour))})
	}
	return &link{
		doors: d, device: settings.Device, changed: task.NewWake(),
		ra: ra.NewAdvertiser(settings, deprecated, random, now),
	}
}

// update gives the link other settings; it always can.
func (a *link) update(s ra.Settings) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ra.Update(s, time.Now())
	if a.dhcp != nil {
		a.dhcp.Update(s)
	}
	a.changed.Set()
	return true
}

func (a *link) announced() announced {
	a.mu.Lock()
	defer a.mu.Unlock()
	return announced{a.ra.Settings(), a.ra.Deprecated()}
}

// spaces gives what prefixes are delegated out of.
func (a *link) spaces() []netip.Prefix {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ra.Settings().Delegate
}

func (a *link) status(name string) ra.Row {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.ra.Settings()
	row := ra.Row{
		Name: name, Device: a.device, Lifetime: s.Lifetime.String(), DHCPv6: string(s.DHCPv6), Fault: a.fault, Stats: a.ra.Stats(),
		// lists that are empty, not null, in JSON
		DNS: append([]netip.Addr{}, s.DNS...), PREF64: append([]netip.Prefix{}, s.PREF64...),
		Prefixes: []netip.Prefix{}, Deprecated: []netip.Prefix{}, Leases: []ra.LeaseRow{},
	}
	for _, p := range s.Prefixes {
		row.Prefixes = append(row.Prefixes, p.Prefix)
	}
	for _, d := range a.ra.Deprecated() {
		row.Deprecated = append(row.Deprecated, d.Prefix.Prefix)
	}
	if a.dhcp != nil {
		stats := a.dhcp.Stats()
		row.DHCP = &stats
		for _, l := range a.dhcp.Leases() {
			row.Leases = append(row.Leases, ra.LeaseRow{Client: hex.EncodeToString([]byte(l.Client)), Kind: string(l.Kind), Prefix: l.Prefix, Peer: l.Peer, Until: l.Until})
		}
	}
	return row
}

// Stop ends the task, and closes what it held.
func (a *link) Stop() {
	a.Task.Stop()
	a.closeStore()
}

// run serves the link until ctx ends or it fails.
func (a *link) run(ctx context.Context, works func()) error {
	err := a.serve(ctx, works)
	if ctx.Err() == nil && err != nil {
		a.complain(err)
	}
	if err == nil && ctx.Err() == nil {
		err = errSockets
	}
	return err
}

// errSockets ends a run whose settings want other sockets.
var errSockets = errors.New("the settings are others")

// report does nothing: complain logs a fault that lasts.
func (a *link) report(error) {}

// complain logs a fault that lasts, once, until it is another or gone.
func (a *link) complain(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	now := time.Now()
	if text != a.fault {
		a.since, a.said = now, false
	}
	if text != "" && !a.said && now.Sub(a.since) >= forgiven {
		a.said = true
		a.doors.Log.Warn("hosts on the link get no router advertisements", "device", a.device, "error", err)
	}
	a.fault = text
}

// setUnkept notes, and logs, why leases are not kept in their file.
func (a *link) setUnkept(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.unkept == nil || a.unkept.Error() != err.Error()) {
		a.doors.Log.Warn("DHCPv6 leases are not kept over a restart", "device", a.device, "error", err)
	}
	a.unkept = err
}

// leasesFault says why leases are not kept.
func (a *link) leasesFault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unkept == nil {
		return nil
	}
	return fmt.Errorf("leases are not kept over a restart: %w", a.unkept)
}

func (a *link) serve(ctx context.Context, works func()) error {
	g := task.NewGroup(ctx)
	defer func() { _ = g.Stop() }() // after the sockets are closed
	ctx = g.Context()
	neighbours, err := lan.ListenNeighbours(a.device)
	if err != nil {
		return err
	}
	defer neighbours.Close()
	heard := make(chan lan.Heard)
	g.Go(func(ctx context.Context) error {
		for {
			h, err := neighbours.Receive()
			if err != nil {
				return err
			}
			select {
			case heard <- h:
			case <-ctx.Done():
				return nil
			}
		}
	})
	clients, asked, err := a.openDHCP(ctx, g)
	if err != nil {
		return err
	}
	if clients != nil {
		defer clients.Close()
	}
	a.complain(nil)
	works()
	mode := a.mode()
	for {
		timer := time.NewTimer(a.wait())
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case h := <-heard:
			a.guard.Do(fmt.Sprintf("%s from %s", h.Message.Type(), h.From), nil, func() { a.hear(h) })
		case q := <-asked:
			a.guard.Do("DHCPv6 message", q.message, func() { a.answer(clients, q) })
		case <-a.changed:
			if a.mode() != mode {
				timer.Stop()
				a.Again()
				return nil // the sockets are others
			}
		case <-timer.C:
		}
		timer.Stop()
		if err := a.send(neighbours); err != nil {
			return err
		}
	}
}

// mode is what decides which sockets and files are open, and which space is held.
func (a *link) mode() [3]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.ra.Settings()
	return [3]string{string(s.DHCPv6), s.Leases, fmt.Sprint(s.Delegate)}
}

// sweepEvery is how often leases are looked through.
const sweepEvery = 10 * time.Second

func (a *link) wait() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(time.Until(a.ra.Next()), 0), sweepEvery)
}

func (a *link) send(n *lan.Neighbours) error {
	now := time.Now()
	sends, changes := a.due(now)
	a.route(changes)
	var errs []error
	for _, s := range sends {
		errs = append(errs, n.Send(s.Message, s.To))
	}
	return errors.Join(errs...)
}

func (a *link) due(now time.Time) (sends []ra.Send, changes []ra.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sends = a.ra.Tick(now)
	if a.dhcp != nil {
		changes = a.dhcp.Expire(now)
	}
	return sends, changes
}

func (a *link) hear(h lan.Heard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := h.Message.(type) {
	case *ndp.RouterSolicitation:
		a.ra.Solicit(h.From, m, h.HopLimit, time.Now())
	case *ndp.RouterAdvertisement:
		for _, what := range a.ra.Hear(h.From, m, h.HopLimit) {
			a.doors.Log.Warn("another router advertises otherwise", "device", a.device, "router", h.From.String(), "what", what)
		}
	}
}

// question is a DHCPv6 message.
type question struct {
	message []byte
	from    netip.Addr
}

// openDHCP opens socket and leases if the settings want them.
func (a *link) openDHCP(ctx context.Context, g *task.Group) (*lan.Clients, <-chan question, error) {
	a.closeStore()
	a.mu.Lock()
	s := a.ra.Settings()
	a.mu.Unlock()
	if s.DHCPv6 == ra.DHCPOff {
		return nil, nil, nil
	}
	store, kept, unkept := openLeases(s)
	a.setUnkept(unkept)
	clients, err := lan.ListenClients(ctx, a.device)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	a.mu.Lock()
	a.store, a.dhcp = store, ra.NewDHCP(s, store, kept)
	a.mu.Unlock()
	for _, space := range s.Delegate {
		err := a.doors.Kernel.HoldSpace(space)
		a.setRouted(space, err)
		if err != nil {
			a.doors.Log.Warn("space to delegate may loop", "error", err)
		}
	}
	for _, l := range kept {
		a.route([]ra.Change{{Lease: l}})
	}
	asked := make(chan question)
	g.Go(func(ctx context.Context) error {
		for {
			message, from, err := clients.Receive()
			if err != nil {
				return err
			}
			select {
			case asked <- question{append([]byte(nil), message...), from}:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return clients, asked, nil
}

func (a *link) closeStore() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store != nil {
		if err := a.store.Close(); err != nil {
			a.doors.Log.Warn("leases may not be kept", "error", err)
		}
	}
	a.store, a.dhcp = nil, nil
}

func (a *link) answer(clients *lan.Clients, q question) {
	m, err := dhcp6.Parse(q.message)
	if err != nil {
		a.doors.Log.Debug("not understood", "device", a.device, "from", q.from.String(), "error", err)
		return
	}
	reply, changes := a.handle(m, q.from)
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
			a.doors.Log.Warn("a delegated prefix is not routed", "prefix", c.Lease.Prefix.String(), "error", err)
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

// routeFault says which delegated prefix is not routed, nil if all are.
func (a *link) routeFault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range slices.SortedFunc(maps.Keys(a.unrouted), netip.Prefix.Compare) {
		return fmt.Errorf("%s, delegated by DHCPv6, is not routed: %w", p, a.unrouted[p])
	}
	return nil
}
