package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/features"
	"weft/internal/paths"
	"weft/internal/state"
)

// settle is how long the loop waits for more news of the kernel before it
// looks: changes come in bursts.
const settle = 100 * time.Millisecond

// Options of Run.
type Options struct {
	File     string
	Log      *slog.Logger
	Level    *slog.LevelVar // follows router.log
	Datapath datapath.Options
	Ready    func() // called once everything is in place; may be nil
	Warn     func([]state.Problem)
}

// Run is the router: it applies the configuration, and again whenever the
// file is reloaded (SIGHUP) or the kernel's links and addresses change, until
// ctx ends. What it made in the kernel stays, so that forwarding goes on;
// Unload takes it away.
func Run(ctx context.Context, o Options) error {
	f, problems, err := Load(o.File)
	if err != nil {
		return err
	}
	o.Warn(problems)
	if state.HasErrors(problems) {
		return ProblemsError(nil)
	}
	if err := fits(f, o.Warn); err != nil {
		return err
	}
	o.Datapath.Tables = features.Sizes(f)
	here, err := paths.Here()
	if err == nil {
		err = here.Make()
	}
	if err != nil {
		return err
	}
	held, err := lock(here.Lock())
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := Open(o.Datapath)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.kernel.Sweep(); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &daemon{
		Options: o, router: r, file: f, services: newServices(o.Log),
		names: &names{log: o.Log}, routing: &routing{log: o.Log, router: r},
		offloading: &offloading{log: o.Log, router: r},
		adverts:    newAdverts(o.Log, r.kernel, r.Place.Run), sharing: &sharing{log: o.Log, router: r}, allocations: &allocations{log: o.Log},
		standing: newStanding(o.File),
	}
	d.found = make(chan struct{}, 1)
	d.names.again = d.found
	d.subscribers = newSubscribers(o.Log, r, d.found)
	d.plats = newPlats(o.Log, r.Place.Run, d.found)
	d.wires = newWires(o.Log, r.kernel, d.found)
	defer d.wires.tasks.Wait()
	d.joined = newJoined(o.Log)
	defer d.joined.wait()
	d.blocks = newBlocks(o.Log, r.Place, r.datapath, r.kernel)
	defer d.services.wait()
	defer d.names.wait()
	defer d.routing.wait()
	defer d.offloading.wait()
	defer d.adverts.wait()
	defer d.plats.wait()
	defer d.subscribers.wait()
	defer d.allocations.stop()
	defer d.sharing.wait()
	defer d.blocks.wait()
	defer cancel()
	if err := d.listen(ctx, f); err != nil {
		return err
	}
	return d.loop(ctx)
}

// fits tells, before anything is made, whether the host has what f wants.
func fits(f *config.File, warn func([]state.Problem)) error {
	r, err := Look()
	if err != nil {
		return err
	}
	defer r.Close()
	facts, err := r.facts(f)
	if err != nil {
		return err
	}
	_, problems := Desire(f, facts)
	if state.HasErrors(problems) {
		warn(problems)
		return ProblemsError(problems)
	}
	return nil
}

// daemon is the event loop's state.
type daemon struct {
	Options
	router      *Router
	file        *config.File
	services    *services
	routing     *routing
	offloading  *offloading
	names       *names
	adverts     *adverts
	plats       *plats
	subscribers *subscribers
	sharing     *sharing
	wires       *wires
	joined      *joined
	blocks      *blocks
	allocations *allocations
	found       chan struct{} // a task has news: a CLAT found its translator, an address may be free
	metrics     *metricsListener
	told        map[string]bool // warnings about the host
	ready       bool            // everything is in place, and was said to be
	standing    *standing
}

func (d *daemon) loop(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if err := d.router.kernel.Watch(ctx, changed); err != nil {
		return err
	}
	if err := d.apply(ctx); err != nil {
		return err
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, unix.SIGHUP)
	defer signal.Stop(reload)
	watchdog, stopWatchdog := watchdogTick()
	defer stopWatchdog()
	listed := d.blocks.inForce()
	if listed == nil {
		d.begun()
	}
	slow := time.NewTimer(blocksSlow)
	defer slow.Stop()
	for {
		select {
		case <-listed:
			listed = nil
			d.begun()
		case <-slow.C:
			if listed != nil {
				d.Log.Info("not ready yet: the block list is being read, what it blocks is let in until then")
				notify("STATUS=reading the block list")
				slow.Reset(blocksSlower)
			}
		case <-ctx.Done():
			notify(systemd.SdNotifyStopping)
			d.Log.Info("stopping; forwarding goes on, weft unload takes it away")
			return nil
		case <-reload:
			d.reload(ctx)
		case <-changed:
			d.follow(ctx, changed)
		case <-d.found:
			d.follow(ctx, d.found)
		case <-watchdog:
			notify(systemd.SdNotifyWatchdog)
		}
	}
}

const (
	// blocksSlow is how long the first block list may take without a word, and
	// blocksSlower how long between the next ones.
	blocksSlow   = 2 * time.Second
	blocksSlower = 10 * time.Second
)

// begun tells that everything is in place.
func (d *daemon) begun() {
	d.ready = true
	notify(systemd.SdNotifyReady + "\nSTATUS=")
	if d.Ready != nil {
		d.Ready()
	}
	d.Log.Info("ready", "file", d.Options.File)
}

func notify(state string) {
	// without systemd there is nobody to tell
	_, _ = systemd.SdNotify(false, state)
}

// watchdogTick ticks twice in the time that systemd allows between signs of life.
func watchdogTick() (<-chan time.Time, func()) {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(interval / 2)
	return t.C, t.Stop
}

// apply brings kernel and datapath to the current configuration.
func (d *daemon) apply(ctx context.Context) error {
	d.Level.Set(levelOf(d.file.Router().Log))
	d.offloading.prepare(d.file)
	done, facts, err := d.router.Apply(ctx, d.file)
	for _, step := range done {
		d.Log.Debug("applied", "step", step.String())
	}
	var problems ProblemsError
	if errors.As(err, &problems) {
		d.Warn(problems)
	}
	if err != nil {
		return err
	}
	if len(done) > 0 {
		d.Log.Info("applied", "steps", len(done))
	}
	d.tell(facts)
	d.services.set(ctx, d.router.datapath, d.file, facts)
	d.wires.set(ctx, d.router.datapath, d.file, facts)
	d.joined.set(ctx, d.router.datapath, d.file)
	d.sharing.set(ctx, d.file, facts)
	d.routing.set(ctx, d.file, facts)
	d.offloading.set(ctx, d.file, len(done) > 0)
	d.names.set(ctx, d.file, facts)
	d.plats.set(ctx, d.file, facts)
	d.subscribers.set(ctx, d.file, facts)
	d.blocks.set(ctx, d.file)
	d.adverts.set(ctx, d.file, facts)
	d.allocations.set(ctx, d.router.datapath, d.file)
	return nil
}

// tell warns of what the host has that the file's author may not expect, once.
func (d *daemon) tell(facts state.Facts) {
	_, problems := Desire(d.file, facts)
	var news []state.Problem
	told := map[string]bool{}
	for _, p := range problems {
		told[p.String()] = true
		if !d.told[p.String()] {
			news = append(news, p)
		}
	}
	d.told = told
	if len(news) > 0 {
		d.Warn(news)
	}
}

func levelOf(l config.Log) slog.Level {
	switch l {
	case config.LogDebug:
		return slog.LevelDebug
	case config.LogWarn:
		return slog.LevelWarn
	case config.LogError:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// reload reads the file again. A file with errors changes nothing.
func (d *daemon) reload(ctx context.Context) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		notify(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", systemd.SdNotifyReloading, now.Nano()/1000))
	}
	defer func() {
		if d.ready {
			notify(systemd.SdNotifyReady + "\nSTATUS=" + d.standing.words())
		}
	}()
	f, problems, err := Load(d.Options.File)
	if err != nil {
		d.standing.refused(err.Error())
		d.Log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	d.Warn(problems)
	if state.HasErrors(problems) {
		d.standing.refusedFor(problems)
		d.Log.Error("reload refused, the old configuration stays", "problems", len(problems))
		return
	}
	old := d.file
	d.file = f
	if err := d.apply(ctx); err != nil {
		var problems ProblemsError
		if errors.As(err, &problems) {
			d.standing.refusedFor(problems)
		} else {
			d.standing.refused(err.Error())
		}
		d.Log.Error("reload failed, going back to the old configuration", "error", err)
		d.file = old
		if err := d.apply(ctx); err != nil {
			d.Log.Error("the old configuration cannot be applied either", "error", err)
		}
		return
	}
	d.relisten(ctx)
	d.standing.applied()
	d.Log.Info("reloaded", "file", d.Options.File)
}

// follow applies again after the kernel changed.
func (d *daemon) follow(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settle):
	}
	select {
	case <-changed:
	default:
	}
	if err := d.apply(ctx); err != nil {
		d.Log.Warn("the kernel changed and the configuration cannot be applied now", "error", err)
	}
}
