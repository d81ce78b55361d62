package daemon

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
	"weft/internal/lan"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// plats finds the prefix of the network's translator for each CLAT that is not
// told. What is found is kept in a file, so that weft plan and the next process
// know it, and is a fact for the next plan.
type plats struct {
	log     *slog.Logger
	file    string
	found   chan<- struct{} // told when a prefix changes
	mu      sync.Mutex
	seekers map[string]*seeker
	tasks   sync.WaitGroup
}

// seeker finds one prefix.
type seeker struct {
	plats     *plats
	name      string
	by        nat64.Discover
	devices   []string
	resolvers []netip.Addr
	cancel    context.CancelFunc
	done      chan struct{}
}

func newPlats(log *slog.Logger, dir string, found chan<- struct{}) *plats {
	return &plats{log: log, file: platFile(dir), found: found, seekers: map[string]*seeker{}}
}

func platFile(dir string) string { return filepath.Join(dir, "plat.json") }

// readPLAT reads what was found here; nothing is there after a boot.
func readPLAT(dir string) (map[string]netip.Prefix, error) {
	m := map[string]netip.Prefix{}
	if _, err := statefile.Read(platFile(dir), &m); err != nil {
		return m, fmt.Errorf("read what was found of translators: %w", err)
	}
	return m, nil
}

// set starts and stops seekers so that they are those of f.
func (s *plats) set(ctx context.Context, f *config.File, facts state.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for _, name := range f.Names("nat64") {
		c := nat64.From(f, name)
		if !c.Discovers() {
			continue
		}
		wanted[name] = true
		next := &seeker{plats: s, name: name, by: c.Discover, devices: c.Uplinks(f), resolvers: c.Resolvers, done: make(chan struct{})}
		if now, running := s.seekers[name]; running {
			if now.by == next.by && slices.Equal(now.devices, next.devices) && slices.Equal(now.resolvers, next.resolvers) {
				continue
			}
			s.stop(name)
		}
		before := facts.PLAT[name]
		inner, cancel := context.WithCancel(ctx)
		next.cancel = cancel
		s.seekers[name] = next
		s.tasks.Go(func() { next.run(inner, before) })
	}
	for name := range s.seekers {
		if !wanted[name] {
			s.stop(name)
		}
	}
}

func (s *plats) stop(name string) {
	s.seekers[name].cancel()
	<-s.seekers[name].done
	delete(s.seekers, name)
}

func (s *plats) wait() { s.tasks.Wait() }

// learn keeps what a seeker found, and tells.
func (s *plats) learn(name string, prefix netip.Prefix) {
	m, err := readPLAT(filepath.Dir(s.file))
	if err != nil {
		s.log.Warn("what was found before is lost", "error", err)
	}
	if prefix.IsValid() {
		s.log.Info("found the translator of the network", "translator", name, "prefix", prefix.String())
		m[name] = prefix
	} else {
		s.log.Warn("the network has no translator any more", "translator", name)
		delete(m, name)
	}
	if err := statefile.Write(s.file, m); err != nil {
		s.log.Error("what was found cannot be kept", "error", err)
		return
	}
	select {
	case s.found <- struct{}{}:
	default:
	}
}

// solicitEvery is the time between questions to routers, of which there are
// three (RFC 4861 section 10).
const (
	solicitEvery = 4 * time.Second
	solicitTimes = 3
	lookEvery    = 5 * time.Second
)

func (k *seeker) run(ctx context.Context, before netip.Prefix) {
	defer close(k.done)
	d := nat64.NewDiscovery(k.by, before, time.Now())
	known := before
	heard := make(chan lan.Heard)
	var listeners sync.WaitGroup
	defer listeners.Wait()
	for _, device := range k.devices {
		listeners.Go(func() { k.listen(ctx, device, heard) })
	}
	pool := dnsio.NewPool(dnsio.Options{MixCase: true, Now: time.Now, ID: dnsio.RandomID, Bit: dnsio.RandomBit}, nil)
	defer pool.Close()
	answers := make(chan answered, 1)
	asking := false
	for {
		now := time.Now()
		if p := d.Prefix(now); p != known {
			known = p
			k.plats.learn(k.name, p)
		}
		wait := lookEvery
		if at, asks := d.AskAt(); asks && !asking {
			if servers := k.servers(d, now); len(servers) > 0 {
				if wait = min(wait, max(at.Sub(now), 0)); wait == 0 {
					asking = true
					pool.Set(servers, true)
					listeners.Go(func() { answers <- k.ask(ctx, pool) })
				}
			}
		}
		timer := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case h := <-heard:
			hear(d, h, time.Now())
		case a := <-answers:
			asking = false
			if a.err != nil {
				d.Failed(time.Now())
				k.plats.log.Debug("nobody answered for ipv4only.arpa", "translator", k.name, "error", a.err)
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
func hear(d *nat64.Discovery, h lan.Heard, now time.Time) {
	m, is := h.Message.(*ndp.RouterAdvertisement)
	if !is || h.HopLimit != ndp.HopLimit || !h.From.IsLinkLocalUnicast() {
		return
	}
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.PREF64:
			d.Hear(h.From, o.Prefix, o.Lifetime, now)
		case *ndp.RecursiveDNSServer:
			for _, a := range o.Servers {
				if a.IsLinkLocalUnicast() {
					a = a.WithZone(h.From.Zone())
				}
				d.HearServer(a, o.Lifetime, now)
			}
		}
	}
}

// listen hears one device until ctx ends, and asks its routers to speak.
func (k *seeker) listen(ctx context.Context, device string, heard chan<- lan.Heard) {
	for ctx.Err() == nil {
		err := listenOnce(ctx, device, heard)
		if ctx.Err() == nil {
			k.plats.log.Debug("does not hear routers now", "device", device, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

func listenOnce(ctx context.Context, device string, heard chan<- lan.Heard) error {
	n, err := lan.ListenNeighbours(device)
	if err != nil {
		return err
	}
	defer n.Close()
	stop := context.AfterFunc(ctx, func() { _ = n.Close() })
	defer stop()
	asked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		allRouters := netip.MustParseAddr("ff02::2")
		for range solicitTimes {
			// a device that cannot send now will be heard when it can
			_ = n.Send(&ndp.RouterSolicitation{}, allRouters)
			select {
			case <-done:
				return
			case <-time.After(solicitEvery):
			}
		}
	}()
	defer func() { close(done); <-asked }()
	for {
		h, err := n.Receive()
		if err != nil {
			return err
		}
		select {
		case heard <- h:
		case <-ctx.Done():
			return nil
		}
	}
}
