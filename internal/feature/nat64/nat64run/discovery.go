package nat64run

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/config"
	"weft/internal/dnsio"
	"weft/internal/feature/nat64"
	"weft/internal/ndpio"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// discovery finds the prefix of the network's translator (RFC 7050, RFC 8781) for
// each CLAT whose section does not give it. What is found is kept in a file, so that weft plan and the next process
// know it, and is a fact for the next plan.
type discovery struct {
	log    *slog.Logger
	file   string
	replan func() // a prefix has changed
	set    task.Set[string, *seeker]
	learns sync.Mutex // one writes the file at a time
}

// seeker finds one prefix.
type seeker struct {
	*task.Task
	discovery *discovery
	name      string
	by        nat64.Discover
	devices   []string
	resolvers []netip.Addr
	known     netip.Prefix
}

func newDiscovery(log *slog.Logger, dir string, replan func()) *discovery {
	return &discovery{log: log, file: platFile(dir), replan: replan}
}

func platFile(dir string) string { return filepath.Join(dir, "plat.json") }

// readPLAT reads what was found here; nothing is there after a boot.
func readPLAT(dir string) (map[string]netip.Prefix, error) {
	m := map[string]netip.Prefix{}
	if _, err := statefile.Cache(platFile(dir), &m); err != nil {
		return m, fmt.Errorf("read the discovered NAT64 prefixes: %w", err)
	}
	return m, nil
}

// apply starts and stops seekers so that they are those of f.
func (s *discovery) apply(ctx context.Context, f *config.File, facts state.Facts) {
	wanted := map[string]*seeker{}
	for _, name := range f.Names("nat64") {
		if c := nat64.From(f, name); c.Discovers() {
			wanted[name] = &seeker{discovery: s, name: name, by: c.Discover, devices: c.Uplinks(f), resolvers: c.Resolvers}
		}
	}
	_ = task.Want(&s.set, wanted, func(now, next *seeker) bool {
		return now.by == next.by && slices.Equal(now.devices, next.devices) && slices.Equal(now.resolvers, next.resolvers)
	}, func(name string, k *seeker) (*seeker, error) {
		k.known = facts.PLAT[name]
		k.Task = task.Keep(ctx, task.Kept{Name: "discovery of the translator for nat64." + name, Log: s.log, Run: k.run})
		return k, nil // it never fails to start
	})
}

// learn keeps what a seeker found, and tells.
func (s *discovery) learn(name string, prefix netip.Prefix) {
	s.learns.Lock()
	defer s.learns.Unlock()
	m, err := readPLAT(filepath.Dir(s.file))
	if err != nil {
		s.log.Warn("cannot read the discovered NAT64 prefixes; earlier ones are lost", "error", err)
	}
	if prefix.IsValid() {
		s.log.Info("discovered the NAT64 prefix of the network", "translator", name, "prefix", prefix.String())
		m[name] = prefix
	} else {
		s.log.Warn("the network no longer has a NAT64 prefix", "translator", name)
		delete(m, name)
	}
	if err := statefile.Write(s.file, m); err != nil {
		s.log.Error("cannot save the discovered NAT64 prefix", "error", err)
		return
	}
	s.replan()
}

// retry is the pause before a device is tried again: it may be down, or its
// link-local address still being checked.
const retry = 250 * time.Millisecond

// solicitEvery is the time between questions to routers, of which there are
// three (RFC 4861 section 10).
const (
	solicitEvery = 4 * time.Second
	solicitTimes = 3
	lookEvery    = 5 * time.Second
)

func (k *seeker) run(ctx context.Context, works func()) error {
	d := nat64.NewDiscovery(k.by, k.known, time.Now())
	received := make(chan ndpio.Received)
	g := task.NewGroup(ctx)
	defer g.Stop()
	ctx = g.Context()
	for _, device := range k.devices {
		g.Go(func(ctx context.Context) error { k.listen(ctx, device, received); return nil })
	}
	works()
	pool := dnsio.NewPool(dnsio.Options{MixCase: true, Now: time.Now, ID: dnsio.RandomID, Bit: dnsio.RandomBit}, nil)
	defer pool.Close()
	answers := make(chan answered, 1)
	asking := false
	for {
		now := time.Now()
		if p := d.Prefix(now); p != k.known {
			k.known = p
			k.discovery.learn(k.name, p)
		}
		wait := lookEvery
		if at, asks := d.AskAt(); asks && !asking {
			if servers := k.servers(d, now); len(servers) > 0 {
				if wait = min(wait, max(at.Sub(now), 0)); wait == 0 {
					asking = true
					pool.Set(servers, true)
					g.Go(func(ctx context.Context) error { answers <- k.ask(ctx, pool); return nil })
				}
			}
		}
		timer := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return g.Stop()
		case h := <-received:
			receive(d, h, time.Now())
		case a := <-answers:
			asking = false
			if a.err != nil {
				d.Failed(time.Now())
				k.discovery.log.Debug("no answer for ipv4only.arpa", "translator", k.name, "error", a.err)
			} else {
				d.Answered(a.addresses, a.ttl, time.Now())
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// servers gives whom to ask: those of the file, else those that were heard.
func (k *seeker) servers(d *nat64.Discovery, now time.Time) []dnsio.Forwarder {
	list := k.resolvers
	if len(list) == 0 {
		list = d.Servers(now)
	}
	var servers []dnsio.Forwarder
	for _, a := range list {
		servers = append(servers, dnsio.Forwarder{Transport: dnsio.UDP, Address: netip.AddrPortFrom(a, 53)})
	}
	return servers
}

type answered struct {
	addresses []netip.Addr
	ttl       time.Duration
	err       error
}

func (k *seeker) ask(ctx context.Context, pool *dnsio.Pool) (a answered) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a.addresses, a.ttl, a.err = pool.IPv6(ctx, "ipv4only.arpa.")
	return a
}

// hear takes what an advertisement says of translators and name servers.
func receive(d *nat64.Discovery, h ndpio.Received, now time.Time) {
	m, is := h.Message.(*ndp.RouterAdvertisement)
	if !is || h.HopLimit != ndp.HopLimit || !h.From.IsLinkLocalUnicast() {
		return
	}
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.PREF64:
			d.Receive(h.From, o.Prefix, o.Lifetime, now)
		case *ndp.RecursiveDNSServer:
			for _, a := range o.Servers {
				if a.IsLinkLocalUnicast() {
					a = a.WithZone(h.From.Zone())
				}
				d.ReceiveServer(a, o.Lifetime, now)
			}
		}
	}
}

// listen hears one device until ctx ends, and asks its routers to speak.
func (k *seeker) listen(ctx context.Context, device string, received chan<- ndpio.Received) {
	for ctx.Err() == nil {
		err := listenOnce(ctx, device, received)
		if ctx.Err() == nil {
			k.discovery.log.Debug("cannot receive router advertisements", "device", device, "error", err)
		}
		task.Pause(ctx, retry)
	}
}

func listenOnce(ctx context.Context, device string, received chan<- ndpio.Received) error {
	n, err := ndpio.Listen(device)
	if err != nil {
		return err
	}
	defer n.Close()
	stop := context.AfterFunc(ctx, func() { _ = n.Close() })
	defer stop()
	g := task.NewGroup(ctx)
	defer g.Stop()
	g.Go(func(ctx context.Context) error {
		allRouters := netip.MustParseAddr("ff02::2")
		for range solicitTimes {
			// a device that cannot send now will be heard when it can
			_ = n.Send(&ndp.RouterSolicitation{}, allRouters)
			if !task.Pause(ctx, solicitEvery) {
				break
			}
		}
		return nil
	})
	for {
		h, err := n.Receive()
		if err != nil {
			return err
		}
		select {
		case received <- h:
		case <-ctx.Done():
			return nil
		}
	}
}
