// Package rarun is the half of router advertisements and DHCPv6 that touches
// the system: sockets, leases and routes of delegated prefixes.
package rarun

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/internal/feature/ra"
	"weft/internal/ndpio"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// Runner keeps the router advertisements and DHCPv6 of the [ra.NAME] sections
// running, one task for each.
type Runner struct{ loop *task.Loop[*links] }

// links is what the runner's loop owns.
type links struct {
	doors  runner.Doors
	memory string // file: what was announced, for the next process
	set    task.Set[string, *link]
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{task.StartLoop(ctx, "ra", &links{doors: d, memory: memoryFile(d.Paths)}, nil)}
}

// Apply starts, changes and stops tasks so that they are those of the file. The
// hosts of a link that is no more served get a last advertisement.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Ask(ctx, func(s *links) {
		before := s.remembered()
		wanted := map[string]ra.Settings{}
		for _, name := range round.File.Names("ra") {
			if settings, ok := ra.SettingsOf(round.File, round.Facts, name); ok { // else its device is not there; a round comes when it is
				wanted[name] = settings
			}
		}
		_ = task.Want(&s.set, wanted, func(a *link, settings ra.Settings) bool {
			return a.device == settings.Device && a.update(settings)
		}, func(name string, settings ra.Settings) (*link, error) {
			a := newLink(s.doors, settings, before[settings.Device])
			a.Task = task.Keep(ctx, task.Kept{
				Name: "router advertisements on " + settings.Device, Run: a.run, Retry: task.Retry{First: retry, Most: retry}, Report: a.report,
			})
			return a, nil // it never fails to start
		})
		s.bidFarewell(before)
		s.sweepDelegations()
		s.remember()
	})
}

// Status reports whether each link is served.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(s *links) (list []state.Health) {
		for name, a := range s.set.All() {
			fault, remedy := a.Fault(), "hosts on "+a.device+" are not served; weft tries again several times a second"
			if fault == nil {
				fault, remedy = a.guard.Fault(), "all other messages are answered; report it with the text above"
			}
			list = append(list, state.HealthOf("ra", name, fault, remedy))
			if err := a.leasesFault(); err != nil {
				list = append(list, state.HealthOf("ra", name, err, "free disk space, or make the file writable: leases are in memory only; weft opens the file again at a reload or restart"))
			}
			if err := a.routeFault(); err != nil {
				list = append(list, state.HealthOf("ra", name, err, "remove the host's route to the same prefix, or delegate from another prefix"))
			}
		}
		return list
	})
}

// Close ends the tasks. No last advertisement is sent: what weft made goes on
// forwarding, and the next process takes over where this one stopped.
func (r *Runner) Close() error {
	s := task.Close(r.loop)
	s.remember()
	s.set.Close()
	return nil
}

// Links returns what the API shows.
func (r *Runner) Links() []ra.Row {
	return task.Get(context.Background(), r.loop, func(s *links) []ra.Row {
		list := []ra.Row{}
		for name, a := range s.set.All() {
			list = append(list, a.status(name))
		}
		return list
	})
}

// announced is what is kept of a link for the next process: what to take back
// and what to call deprecated. Daemons come and go, hosts remember.
type announced struct {
	Settings   ra.Settings     `json:"settings"`
	Deprecated []ra.Deprecated `json:"deprecated"`
}

func memoryFile(p paths.Dirs) string { return filepath.Join(p.Run, "ra.json") }

// remembered reads what was announced; nothing is there after a boot.
func (s *links) remembered() map[string]announced {
	m, err := readAnnounced(s.memory)
	if err != nil {
		s.doors.Log.Warn("cannot read the saved router-advertisement state", "error", err)
	}
	for _, a := range s.set.All() {
		m[a.device] = a.announced()
	}
	return m
}

func readAnnounced(file string) (map[string]announced, error) {
	m := map[string]announced{}
	_, err := statefile.Cache(file, &m)
	return m, err
}

func (s *links) remember() {
	m := map[string]announced{}
	for _, a := range s.set.All() {
		m[a.device] = a.announced()
	}
	if err := statefile.Write(s.memory, m); err != nil {
		s.doors.Log.Warn("cannot save router-advertisement state", "error", err)
	}
}

// bidFarewell tells hosts of links that are no more served.
func (s *links) bidFarewell(before map[string]announced) {
	for device, was := range before {
		served := false
		for _, a := range s.set.All() {
			served = served || a.device == device
		}
		if served {
			continue
		}
		if err := farewell(was.Settings); err != nil {
			s.doors.Log.Warn("cannot send the final router advertisement", "device", device, "error", err)
		}
	}
}

// farewell sends the last advertisement.
func farewell(s ra.Settings) error {
	n, err := ndpio.Listen(s.Device)
	if err != nil {
		return err
	}
	return errors.Join(n.Send(s.Farewell(time.Now()), netip.IPv6LinkLocalAllNodes()), n.Close())
}

// Unload takes back everything that was announced here, while the addresses are
// still there, and the routes of delegated prefixes. A host that does not receive
// it finds out when lifetimes end.
func Unload(d runner.Doors) error {
	m, _ := readAnnounced(memoryFile(d.Paths))
	for _, was := range m {
		// on a device that is gone there is no host
		if _, err := os.Stat("/proc/sys/net/ipv6/conf/" + was.Settings.Device); err == nil {
			_ = farewell(was.Settings)
		}
	}
	return d.Kernel.Undelegated(func(netip.Prefix) bool { return false })
}

// sweepDelegations removes routes out of spaces that are no more delegated.
// Those of leases that ended meanwhile go as their leases do.
func (s *links) sweepDelegations() {
	var spaces []netip.Prefix
	for _, a := range s.set.All() {
		spaces = append(spaces, a.spaces()...)
	}
	err := s.doors.Kernel.Undelegated(func(p netip.Prefix) bool {
		return slices.ContainsFunc(spaces, func(space netip.Prefix) bool { return space.Bits() <= p.Bits() && space.Contains(p.Addr()) })
	})
	if err != nil {
		s.doors.Log.Warn("cannot remove old routes of delegated prefixes", "error", err)
	}
}

// retry is the pause before a link is tried again: its device may be down, or
// its link-local address still being checked.
const retry = 250 * time.Millisecond
