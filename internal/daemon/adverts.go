package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/feature/ra"
	"weft/internal/kernel"
	"weft/internal/lan"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// adverts keeps the router advertisements and DHCPv6 of the [ra.NAME] sections
// running, one task for each.
type adverts struct {
	log    *slog.Logger
	kernel *kernel.Kernel
	memory string // file: what was announced, for the next process
	mu     sync.Mutex
	links  map[string]*advert
	tasks  sync.WaitGroup
}

// announced is what is kept of a link for the next process: what to take back
// and what to call deprecated. Daemons come and go, hosts remember.
type announced struct {
	Settings   ra.Settings     `json:"settings"`
	Deprecated []ra.Deprecated `json:"deprecated"`
}

func newAdverts(log *slog.Logger, k *kernel.Kernel, dir string) *adverts {
	return &adverts{log: log, kernel: k, memory: filepath.Join(dir, "ra.json"), links: map[string]*advert{}}
}

// set starts, changes and stops tasks so that they are those of f. A link that
// is no more served is told so.
func (s *adverts) set(ctx context.Context, f *config.File, facts state.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.remembered()
	wanted := map[string]bool{}
	for _, name := range f.Names("ra") {
		settings, ok := ra.SettingsOf(f, facts, name)
		if !ok {
			continue // its device is not there; the event loop comes again
		}
		wanted[name] = true
		if a, running := s.links[name]; running && a.device == settings.Device {
			a.update(settings)
			continue
		}
		s.stop(name)
		s.start(ctx, name, settings, before[settings.Device])
	}
	for name := range s.links {
		if !wanted[name] {
			s.stop(name)
		}
	}
	s.bidFarewell(before)
	s.sweepDelegations()
	s.remember()
}

func (s *adverts) start(ctx context.Context, name string, settings ra.Settings, was announced) {
	ctx, cancel := context.WithCancel(ctx)
	a := newAdvert(s, settings, was)
	a.cancel = cancel
	s.links[name] = a
	s.tasks.Go(func() { a.serve(ctx) })
}

func (s *adverts) stop(name string) {
	if a, ok := s.links[name]; ok {
		a.cancel()
		<-a.done
		delete(s.links, name)
	}
}

// wait ends the tasks. Nobody is told: what weft made goes on forwarding, and
// the next process takes over where this one stopped.
func (s *adverts) wait() {
	s.tasks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember()
}

// remembered reads what was announced; nothing is there after a boot.
func (s *adverts) remembered() map[string]announced {
	m, err := readAnnounced(s.memory)
	if err != nil {
		s.log.Warn("what was announced before is not known", "error", err)
	}
	for _, a := range s.links {
		m[a.device] = a.announced()
	}
	return m
}

func readAnnounced(file string) (map[string]announced, error) {
	m := map[string]announced{}
	_, err := statefile.Read(file, &m)
	return m, err
}

func (s *adverts) remember() {
	m := map[string]announced{}
	for _, a := range s.links {
		m[a.device] = a.announced()
	}
	if err := statefile.Write(s.memory, m); err != nil {
		s.log.Warn("what is announced cannot be kept", "error", err)
	}
}

// bidFarewell tells hosts of links that are no more served.
func (s *adverts) bidFarewell(before map[string]announced) {
	for device, was := range before {
		served := false
		for _, a := range s.links {
			served = served || a.device == device
		}
		if served {
			continue
		}
		if err := farewell(was.Settings); err != nil {
			s.log.Warn("hosts could not be told that the router is gone", "device", device, "error", err)
		}
	}
}

// farewell sends the last advertisement.
func farewell(s ra.Settings) error {
	n, err := lan.ListenNeighbours(s.Device)
	if err != nil {
		return err
	}
	return errors.Join(n.Send(s.Farewell(), netip.IPv6LinkLocalAllNodes()), n.Close())
}

// farewells takes back everything that was announced here: for weft unload.
func farewells(dir string) error {
	m, err := readAnnounced(filepath.Join(dir, "ra.json"))
	for _, was := range m {
		// a device that is gone has nobody to tell
		if _, there := os.Stat("/proc/sys/net/ipv6/conf/" + was.Settings.Device); there == nil {
			err = errors.Join(err, farewell(was.Settings))
		}
	}
	return err
}

// sweepDelegations removes routes out of spaces that are no more delegated.
// Those of leases that ended meanwhile go as their leases do.
func (s *adverts) sweepDelegations() {
	var spaces []netip.Prefix
	for _, a := range s.links {
		spaces = append(spaces, a.spaces()...)
	}
	err := s.kernel.Undelegated(func(p netip.Prefix) bool {
		return slices.ContainsFunc(spaces, func(space netip.Prefix) bool { return space.Bits() <= p.Bits() && space.Contains(p.Addr()) })
	})
	if err != nil {
		s.log.Warn("old delegations stay", "error", err)
	}
}

// status gives what the API shows.
func (s *adverts) status() []api.Advert {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []api.Advert{}
	for name, a := range s.links {
		list = append(list, a.status(name))
	}
	slices.SortFunc(list, func(a, b api.Advert) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// retry is the pause before a link is tried again: its device may be down, or
// its link-local address still being checked.
const retry = 250 * time.Millisecond
