package rarun

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/internal/ndpio"
	"weft/internal/runner"
	"weft/internal/task"
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
		deprecated = append(deprecated, was.Settings.Deprecate(p, now))
	}
	return &link{
		doors: d, device: settings.Device, changed: task.NewWake(),
		ra: ra.NewAdvertiser(settings, deprecated, random, now),
	}
}

// update changes the settings of the link; it always can.
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

// spaces returns what prefixes are delegated out of.
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
		a.doors.Log.Warn("cannot send router advertisements", "device", a.device, "error", err)
	}
	a.fault = text
}

func (a *link) serve(ctx context.Context, works func()) error {
	g := task.NewGroup(ctx)
	defer func() { _ = g.Stop() }() // after the sockets are closed
	ctx = g.Context()
	neighbours, err := ndpio.Listen(a.device)
	if err != nil {
		return err
	}
	defer neighbours.Close()
	received := make(chan ndpio.Received)
	g.Go(func(ctx context.Context) error {
		for {
			h, err := neighbours.Receive()
			if err != nil {
				return err
			}
			select {
			case received <- h:
			case <-ctx.Done():
				return nil
			}
		}
	})
	clients, waiting, err := a.openDHCP(ctx, g)
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
		case h := <-received:
			a.guard.Do(fmt.Sprintf("%s from %s", h.Message.Type(), h.From), nil, func() { a.receive(h) })
		case q := <-waiting.bound():
			a.guard.Do("DHCPv6 message", q.message, func() { a.answer(clients, waiting, q) })
		case q := <-waiting.others():
			a.guard.Do("DHCPv6 message", q.message, func() { a.answer(clients, waiting, q) })
		case <-a.changed:
			if a.mode() != mode {
				timer.Stop()
				a.Again()
				return nil // the sockets are others
			}
		case <-timer.C:
		}
		timer.Stop()
		if err := a.send(neighbours, waiting); err != nil {
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

func (a *link) send(n *ndpio.Conn, waiting *requests) error {
	now := time.Now()
	sends, changes := a.due(now)
	waiting.note(changes)
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

func (a *link) receive(h ndpio.Received) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := h.Message.(type) {
	case *ndp.RouterSolicitation:
		a.ra.Solicit(h.From, m, h.HopLimit, time.Now())
	case *ndp.RouterAdvertisement:
		for _, what := range a.ra.Receive(h.From, m, h.HopLimit) {
			a.doors.Log.Warn("another router advertises different values", "device", a.device, "router", h.From.String(), "what", what)
		}
	}
}
