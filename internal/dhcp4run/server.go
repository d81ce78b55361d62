package dhcp4run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"weft/internal/arpio"
	"weft/internal/dhcp4io"
	"weft/internal/dhcp4server"
	"weft/internal/store"
	"weft/internal/task"
	"weft/wire/arp"
)

// ServerSettings say how a server runs.
type ServerSettings struct {
	Device string
	Config dhcp4server.Config
	Path   string // of the file of leases; "": they end with the process
	// Changed is called in the server's task with leases that have changed, after they are
	// stored and before their clients are answered; nil: nothing is.
	Changed func([]dhcp4server.Lease)

	in func(func() error) error // opens sockets in a namespace, for tests; nil: here
}

// Server is a server that runs on one device.
type Server struct {
	*task.Task
	settings ServerSettings
	box      task.Mailbox[*serving]
}

type serving struct {
	s      *Server
	engine *dhcp4server.Server
	io     *dhcp4io.Server
	arp    *arpio.Conn
	file   *store.File
	probes map[netip.Addr]*probe
	order  []*probe // as they end
	fault  task.OnChange
}

// probe is an address that the server has asked for.
type probe struct {
	address netip.Addr
	sent    int
	at      time.Time // when it is asked for again, or taken for free
}

// A server asks twice, and waits less than a client that may keep an address for a day: the
// client probes too.
const (
	serverProbes = 2
	serverWait   = 200 * time.Millisecond
	atOnce       = 256 // messages that are answered after one write to the disk
)

// StartServer starts a server. A device that is missing is waited for.
func StartServer(ctx context.Context, settings ServerSettings) *Server {
	s := &Server{settings: settings, box: task.NewMailbox[*serving]()}
	s.Task = task.Keep(ctx, task.Kept{Name: "DHCPv4 server on " + settings.Device, Run: s.run})
	return s
}

// Update changes the configuration.
func (s *Server) Update(ctx context.Context, c dhcp4server.Config) error {
	return s.box.Ask(ctx, func(r *serving) {
		s.settings.Config = c
		r.engine.Update(c, time.Now())
	})
}

// Leases lists the addresses that are not free.
func (s *Server) Leases(ctx context.Context) (list []dhcp4server.Lease, err error) {
	err = s.box.Ask(ctx, func(r *serving) { list = r.engine.Leases() })
	return list, err
}

// Stop ends the server.
func (s *Server) Stop() {
	s.Task.Stop()
	s.box.Close()
}

func (s *Server) run(ctx context.Context, works func()) (err error) {
	r := &serving{s: s, probes: map[netip.Addr]*probe{}}
	var leases []dhcp4server.Lease
	if s.settings.Path != "" {
		if r.file, err = store.Open(s.settings.Path); err != nil {
			// hosts are served all the same
			slog.Warn("DHCPv4 leases are not saved", "device", s.settings.Device, "error", err)
		} else {
			defer r.file.Close()
			if r.file.Damaged != nil {
				slog.Warn("DHCPv4 leases were lost", "device", s.settings.Device, "error", r.file.Damaged)
			}
			if leases, err = read(r.file); err != nil {
				return err
			}
		}
	}
	err = open(s.settings.in, func() (err error) {
		if r.io, err = dhcp4io.Listen(ctx, s.settings.Device); err != nil {
			return err
		}
		if r.arp, err = arpio.Open(s.settings.Device); err != nil {
			return errors.Join(err, r.io.Close())
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer r.io.Close()
	defer r.arp.Close()
	r.engine = dhcp4server.New(s.settings.Config, leases, time.Now())
	works()
	messages, packets := make(chan message, atOnce), make(chan arp.Packet, atOnce)
	g := task.NewGroup(ctx)
	g.Go(func(ctx context.Context) error {
		return receive(ctx, func() (m message, err error) { m.payload, m.from, err = r.io.Receive(); return m, err }, messages)
	})
	g.Go(func(ctx context.Context) error { return receive(ctx, r.arp.Receive, packets) })
	g.Go(func(ctx context.Context) error {
		defer r.io.Close()
		defer r.arp.Close()
		return r.loop(ctx, messages, packets)
	})
	return g.Wait()
}

type message struct {
	payload []byte
	from    netip.Addr
}

func read(f *store.File) (list []dhcp4server.Lease, err error) {
	err = f.Each(func(key, value []byte) error {
		var l dhcp4server.Lease
		if err := json.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("lease %x: %w", key, err)
		}
		list = append(list, l)
		return nil
	})
	return list, err
}

func (r *serving) loop(ctx context.Context, messages <-chan message, packets <-chan arp.Packet) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-r.s.box.Asked():
			f(r)
		case m := <-messages:
			r.engine.Receive(m.payload, m.from, time.Now())
			r.more(messages)
		case p := <-packets:
			if r.probes[p.From] != nil && p.FromHardware != r.arp.Hardware() {
				r.probed(p.From, true)
			}
		case <-timer.C:
		}
		now := time.Now()
		r.tick(now)
		r.flush()
		due := r.engine.Due()
		if len(r.order) > 0 {
			due = earliest(due, r.order[0].at)
		}
		if due.IsZero() {
			due = now.Add(time.Hour)
		}
		timer.Reset(max(due.Sub(now), 0))
	}
}

// more takes the messages that have come meanwhile: one write stores the leases of all.
func (r *serving) more(messages <-chan message) {
	for range atOnce {
		select {
		case m := <-messages:
			r.engine.Receive(m.payload, m.from, time.Now())
		default:
			return
		}
	}
}

func (r *serving) tick(now time.Time) {
	r.engine.Tick(now)
	for len(r.order) > 0 && !now.Before(r.order[0].at) {
		p := r.order[0]
		r.order = r.order[1:]
		switch {
		case r.probes[p.address] != p: // it was answered
		case p.sent < serverProbes:
			r.ask(p, now)
		default:
			r.probed(p.address, false)
		}
	}
}

func (r *serving) ask(p *probe, now time.Time) {
	p.sent++
	p.at = now.Add(serverWait)
	r.order = append(r.order, p) // each waits as long, so they end in this order
	r.complain(r.arp.Probe(p.address))
}

func (r *serving) probed(a netip.Addr, taken bool) {
	delete(r.probes, a)
	r.engine.Probed(a, taken, time.Now())
}

// flush does what the engine wants done: first leases are stored, then clients are answered.
func (r *serving) flush() {
	out := r.engine.Output()
	if len(out.Changes) > 0 {
		r.keep(out.Changes)
		if r.s.settings.Changed != nil {
			r.s.settings.Changed(out.Changes)
		}
	}
	for _, x := range out.Replies {
		if err := r.io.Send(x.Message, r.s.settings.Config.Address, x.To, x.Hardware); err != nil {
			r.complain(err)
		}
	}
	for _, a := range out.Probes {
		p := &probe{address: a}
		r.probes[a] = p
		r.ask(p, time.Now())
	}
}

func (r *serving) keep(changes []dhcp4server.Lease) {
	if r.file == nil {
		return
	}
	list := make([]store.Change, 0, len(changes))
	for _, l := range changes {
		c := store.Change{Key: l.Address.AsSlice()}
		if l.State != dhcp4server.Free {
			value, err := json.Marshal(l)
			if err != nil {
				r.complain(err)
				continue
			}
			c.Value = value
		}
		list = append(list, c)
	}
	if err := r.file.Apply(list); err != nil {
		r.complain(errors.Join(errors.New("DHCPv4 leases are not saved"), err))
	}
}

// complain logs an error that is another than the last.
func (r *serving) complain(err error) {
	if err != nil && r.fault.Changed(err) {
		slog.Warn("DHCPv4 server", "device", r.s.settings.Device, "error", err)
	}
}
