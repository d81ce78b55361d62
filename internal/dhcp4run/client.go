// Package dhcp4run runs the DHCPv4 client and server: their engines, sockets and store, one
// task each.
package dhcp4run

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"weft/internal/arpio"
	"weft/internal/dhcp4client"
	"weft/internal/dhcp4io"
	"weft/internal/task"
	"weft/wire/arp"
)

// ClientSettings say how a client runs.
type ClientSettings struct {
	Device  string
	Config  dhcp4client.Config // Hardware and Random are filled in
	Lease   *dhcp4client.Lease // of an earlier process; nil: none
	InForce bool               // its address is on the device
	// Changed is called in the client's task with the lease in force, or without one; it may
	// take its time, but must not ask the client. The address is announced after it.
	Changed func(lease dhcp4client.Lease, ok bool)

	in func(func() error) error // opens sockets in a namespace, for tests; nil: here
}

// Client is a client that runs on one device.
type Client struct {
	*task.Task
	settings ClientSettings
	box      task.Mailbox[*running]
	last     *dhcp4client.Lease // for the next attempt, after a fault
}

// running is a client while its sockets are open. It is the link of its engine.
type running struct {
	c        *Client
	engine   *dhcp4client.Client
	io       *dhcp4io.Client
	arp      *arpio.Conn
	changed  bool
	probe    netip.Addr // asked for now
	sent     int        // probes
	probeAt  time.Time  // the next, or the end of waiting
	said     int        // announcements
	sayAt    time.Time
	defended time.Time
}

// Times of RFC 5227 section 1.1.
const (
	probeWait    = time.Second
	probeTimes   = 3
	probeLeast   = time.Second
	probeMost    = 2 * time.Second
	announceWait = 2 * time.Second
	announce     = 2
	defendEvery  = 10 * time.Second
)

// StartClient starts a client. A device that is missing is waited for.
func StartClient(ctx context.Context, s ClientSettings) *Client {
	c := &Client{settings: s, box: task.NewMailbox[*running]()}
	if s.Lease != nil {
		c.last = s.Lease
	}
	c.Task = task.Keep(ctx, task.Kept{Name: "DHCPv4 client on " + s.Device, Run: c.run})
	return c
}

// Verify asks the server whether the lease holds, as after a link was down.
func (c *Client) Verify(ctx context.Context) error {
	return c.box.Ask(ctx, func(r *running) { r.engine.Verify(time.Now()) })
}

// Release gives the lease back.
func (c *Client) Release(ctx context.Context) error {
	return c.box.Ask(ctx, func(r *running) { r.engine.Release(time.Now()) })
}

// Status returns what there is to say about the client.
func (c *Client) Status(ctx context.Context) (s dhcp4client.Status, err error) {
	err = c.box.Ask(ctx, func(r *running) { s = r.engine.Status() })
	return s, err
}

// Stop ends the client. Its lease stays as it is.
func (c *Client) Stop() {
	c.Task.Stop()
	c.box.Close()
}

func random(b []byte) { _, _ = rand.Read(b) } // which never fails

// between is a random time.
func between(least, most time.Duration) time.Duration {
	var b [2]byte
	random(b[:])
	return least + (most-least)*time.Duration(uint16(b[0])<<8|uint16(b[1]))/65536
}

func (c *Client) run(ctx context.Context, works func()) error {
	var io *dhcp4io.Client
	var conn *arpio.Conn
	err := open(c.settings.in, func() (err error) {
		if io, err = dhcp4io.Open(ctx, c.settings.Device); err != nil {
			return err
		}
		if conn, err = arpio.Open(c.settings.Device); err != nil {
			return errors.Join(err, io.Close())
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer io.Close()
	defer conn.Close()
	r := &running{c: c, io: io, arp: conn}
	config := c.settings.Config
	config.Hardware, config.Random = io.Hardware(), random
	if c.last != nil {
		r.engine = dhcp4client.Restore(config, r, *c.last, c.settings.InForce, time.Now())
	} else {
		r.engine = dhcp4client.New(config, r, time.Now())
	}
	works()
	messages, packets := make(chan []byte, 16), make(chan arp.Packet, 64)
	g := task.NewGroup(ctx)
	g.Go(func(ctx context.Context) error { return receive(ctx, io.Receive, messages) })
	g.Go(func(ctx context.Context) error { return receive(ctx, conn.Receive, packets) })
	g.Go(func(ctx context.Context) error {
		defer io.Close()
		defer conn.Close()
		return r.loop(ctx, messages, packets)
	})
	return g.Wait()
}

// open opens sockets.
func open(in func(func() error) error, f func() error) error {
	if in == nil {
		return f()
	}
	return in(f)
}

// receive sends what comes to the loop.
func receive[T any](ctx context.Context, next func() (T, error), to chan<- T) error {
	for {
		m, err := next()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *running) loop(ctx context.Context, messages <-chan []byte, packets <-chan arp.Packet) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-r.c.box.Asked():
			f(r)
		case b := <-messages:
			r.engine.Receive(b, time.Now())
		case p := <-packets:
			r.heard(p, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		r.tick(now)
		due := earliest(r.engine.Due(), r.probeAt, r.sayAt)
		if due.IsZero() {
			due = now.Add(time.Hour)
		}
		timer.Reset(max(due.Sub(now), 0))
	}
}

func earliest(list ...time.Time) (first time.Time) {
	for _, t := range list {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// tick does what is due, and says what has changed.
func (r *running) tick(now time.Time) {
	if due := r.engine.Due(); !due.IsZero() && !now.Before(due) {
		r.engine.Tick(now)
	}
	if r.probe.IsValid() && !now.Before(r.probeAt) {
		if r.sent == probeTimes {
			a := r.probe
			r.probe, r.probeAt = netip.Addr{}, time.Time{}
			r.engine.Probed(a, false, now)
		} else {
			r.log("cannot probe for an address", r.arp.Probe(r.probe))
			if r.sent++; r.sent == probeTimes {
				r.probeAt = now.Add(announceWait)
			} else {
				r.probeAt = now.Add(between(probeLeast, probeMost))
			}
		}
	}
	if r.changed {
		r.changed = false
		l, ok := r.engine.Lease()
		before := r.c.last
		if r.c.last = nil; ok {
			r.c.last, r.c.settings.InForce = &l, true
		}
		r.c.settings.Changed(l, ok)
		if r.sayAt = (time.Time{}); ok && (before == nil || before.Address != l.Address || r.said < announce) {
			r.said, r.sayAt = 0, now
		}
	}
	if l, ok := r.engine.Lease(); ok && !r.sayAt.IsZero() && !now.Before(r.sayAt) {
		r.log("cannot announce an address", r.arp.Announce(l.Address.Addr()))
		if r.said++; r.said < announce {
			r.sayAt = now.Add(announceWait)
		} else {
			r.sayAt = time.Time{}
		}
	}
}

// heard takes an ARP packet of another host.
func (r *running) heard(p arp.Packet, now time.Time) {
	own := r.arp.Hardware()
	if a := r.probe; a.IsValid() && p.Conflicts(a, own) {
		r.probe, r.probeAt = netip.Addr{}, time.Time{}
		r.engine.Probed(a, true, now)
		return
	}
	l, ok := r.engine.Lease()
	if !ok || p.FromHardware == own || p.From != l.Address.Addr() {
		return
	}
	// the address is defended once in a while, and then given up (RFC 5227 section 2.4)
	if r.defended.IsZero() || now.Sub(r.defended) > defendEvery {
		r.defended = now
		r.log("cannot announce an address", r.arp.Announce(p.From))
		return
	}
	r.engine.Conflict(p.From, now)
}

func (r *running) log(what string, err error) {
	if err != nil {
		slog.Warn(what, "device", r.c.settings.Device, "error", err)
	}
}

// Send is of the engine's link.
func (r *running) Send(b []byte, to netip.Addr) {
	var own netip.Addr
	if l, ok := r.engine.Lease(); ok {
		own = l.Address.Addr()
	}
	if s := r.engine.Status().State; s == dhcp4client.Rebooting || s == dhcp4client.Selecting || s == dhcp4client.Requesting {
		own = netip.Addr{} // the server is not to see an address that is in question
	}
	r.log("cannot send DHCPv4", r.io.Send(b, own, to))
}

// Probe is of the engine's link.
func (r *running) Probe(a netip.Addr) {
	r.probe, r.sent, r.probeAt = a, 0, time.Now().Add(between(0, probeWait))
}

// Changed is of the engine's link.
func (r *running) Changed() { r.changed = true }
