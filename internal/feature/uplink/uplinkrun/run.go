// Package uplinkrun is the half of uplinks that touches the system: the probes.
package uplinkrun

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/internal/feature/uplink"
	"weft/internal/paths"
	"weft/internal/pingio"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// Runner probes the uplinks, one task for each that is probed and each family.
type Runner struct{ loop *task.Loop[*uplinks] }

// uplinks is what the runner's loop owns.
type uplinks struct {
	doors  runner.Doors
	round  runner.Round
	probes task.Set[string, *probe] // by name and family
}

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{task.StartLoop(ctx, "uplinks", &uplinks{doors: d}, nil)}
}

func verdicts(p paths.Dirs) string { return filepath.Join(p.Run, "uplinks.json") }

// Facts returns which uplinks are down.
func Facts(_ context.Context, d runner.Doors, _ state.Questions, facts *state.Facts) error {
	facts.Uplinks = map[string]state.Uplink{}
	_, err := statefile.Cache(verdicts(d.Paths), &facts.Uplinks)
	return err
}

func keyOf(name string, fam int) string { return fmt.Sprintf("%s/%d", name, fam) }

// Apply starts, changes and stops probes so that they are those of the file.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	return r.loop.Ask(ctx, func(u *uplinks) {
		u.round = round
		want := map[string]uplink.Settings{}
		for _, name := range round.File.Names("uplink") {
			for fam := range 2 {
				if s, ok := uplink.SettingsOf(round.File, round.Facts, name, fam); ok {
					want[keyOf(name, fam)] = s
				}
			}
		}
		if len(want)+u.probes.Len()+len(round.Facts.Uplinks) == 0 {
			return
		}
		_ = task.Want(&u.probes, want, func(p *probe, s uplink.Settings) bool { return p.settings.Equal(s) },
			func(key string, s uplink.Settings) (*probe, error) {
				p := &probe{settings: s, changed: func() { r.changed(ctx) }, box: task.NewMailbox[*uplink.Judge]()}
				was := round.Facts.Uplinks[s.Name]
				p.judge.Down = strings.HasSuffix(key, "/0") && was.Down4 || strings.HasSuffix(key, "/1") && was.Down6
				p.Task = task.Keep(ctx, task.Kept{Name: "probes of uplink " + s.Name, Log: u.doors.Log, Run: p.run})
				return p, nil
			})
		u.note()
	})
}

// changed notes the new verdict of a probe. The probe does not wait for it.
func (r *Runner) changed(ctx context.Context) {
	task.Go(func() { _ = r.loop.Ask(ctx, (*uplinks).note) })
}

// note keeps the verdicts for plans, and asks for a round if they have changed.
func (u *uplinks) note() {
	now := map[string]state.Uplink{}
	for key, p := range u.probes.All() {
		name, fam, _ := strings.Cut(key, "/")
		j := p.verdict()
		v := now[name]
		if fam == "0" {
			v.Down4 = j.Down
		} else {
			v.Down6 = j.Down
		}
		if v != (state.Uplink{}) {
			now[name] = v
		}
	}
	before := map[string]state.Uplink{}
	if _, err := statefile.Cache(verdicts(u.doors.Paths), &before); err == nil && mapsEqual(before, now) {
		return
	}
	if err := statefile.Write(verdicts(u.doors.Paths), now); err != nil {
		u.doors.Log.Error("cannot note which uplinks work", "error", err)
		return
	}
	for name, v := range now {
		if v != before[name] {
			u.doors.Log.Warn("an uplink is down", "uplink", name, "ipv4", v.Down4, "ipv6", v.Down6)
		}
	}
	for name := range before {
		if now[name] == (state.Uplink{}) {
			u.doors.Log.Info("an uplink works again", "uplink", name)
		}
	}
	u.doors.Replan()
}

func mapsEqual(a, b map[string]state.Uplink) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// Status reports each uplink that is probed.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(u *uplinks) (list []state.Health) {
		for key, p := range u.probes.All() {
			name, fam, _ := strings.Cut(key, "/")
			fault := p.Fault()
			if j := p.verdict(); fault == nil && j.Down {
				hosts := strings.Trim(fmt.Sprint(p.settings.Probe), "[]")
				fault = fmt.Errorf("no answer through %s from %s", p.settings.Device, hosts)
			}
			if fam == "0" {
				name += " IPv4"
			} else {
				name += " IPv6"
			}
			list = append(list, state.HealthOf("uplink", name, fault, "other uplinks are used meanwhile; look at the line, its modem, and whether the probed hosts answer ping"))
		}
		return list
	})
}

// Close stops the probes; the routes stay.
func (r *Runner) Close() error {
	task.Close(r.loop).probes.Close()
	return nil
}

// Uplinks returns the rows of weft show uplinks.
func (r *Runner) Uplinks(ctx context.Context) []uplink.Row {
	return task.Get(ctx, r.loop, func(u *uplinks) []uplink.Row {
		list := []uplink.Row{}
		if u.round.File == nil {
			return list
		}
		for _, g := range uplink.Gateways(u.round.File, u.round.Facts) {
			row := g.Row()
			if p, ok := u.probes.Get(keyOf(g.Name, g.Family)); ok {
				j := p.verdict()
				row.Probed, row.RTT, row.Rounds, row.Lost, row.Since = true, j.RTT.Seconds(), j.Rounds, j.Lost, j.Since
			}
			list = append(list, row)
		}
		return list
	})
}

// probe is the probing of one uplink in one family.
type probe struct {
	*task.Task
	settings uplink.Settings
	changed  func()
	judge    uplink.Judge // its task owns it
	box      task.Mailbox[*uplink.Judge]
}

// verdict returns a copy of the judge.
func (p *probe) verdict() (j uplink.Judge) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.box.Ask(ctx, func(now *uplink.Judge) { j = *now })
	return j
}

func (p *probe) run(ctx context.Context, works func()) error {
	g := task.NewGroup(ctx)
	defer func() { _ = g.Stop() }()
	tick := time.NewTicker(p.settings.Interval)
	defer tick.Stop()
	results := make(chan result, 1)
	works()
	for waiting := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case ask := <-p.box.Asked():
			ask(&p.judge)
		case <-tick.C:
			if waiting {
				continue
			}
			waiting = true
			g.Go(func(ctx context.Context) error {
				results <- p.all(ctx)
				return nil
			})
		case r := <-results:
			waiting = false
			if p.judge.Round(p.settings, r.answered, r.rtt, time.Now()) {
				p.changed()
			}
		}
	}
}

type result struct {
	answered bool
	rtt      time.Duration
}

// all sends one request to each host, and waits for the first answer.
func (p *probe) all(ctx context.Context) result {
	ctx, cancel := context.WithTimeout(ctx, min(p.settings.Interval, 5*time.Second))
	defer cancel()
	g := task.NewGroup(ctx)
	defer func() { _ = g.Stop() }()
	answers := make(chan result, len(p.settings.Probe))
	for _, host := range slices.Clone(p.settings.Probe) {
		g.Go(func(ctx context.Context) error {
			rtt, err := pingio.Echo(ctx, p.settings.Device, host)
			answers <- result{err == nil, rtt}
			return nil
		})
	}
	for range p.settings.Probe {
		select {
		case r := <-answers:
			if r.answered {
				return r
			}
		case <-ctx.Done():
			return result{}
		}
	}
	return result{}
}
