package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/ability"
	"weft/internal/fault"
	"weft/internal/features"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/task"
	"weft/internal/trial"
)

// settle is how long the loop waits for further kernel events before it reads the
// state: changes come in bursts.
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

// Run is the router: it applies the configuration, and applies it again whenever the file is
// reloaded (SIGHUP) or the kernel's links and addresses change, until ctx ends. Its objects in
// the kernel stay, so that forwarding continues; Unload removes them.
func Run(ctx context.Context, o Options) error {
	here, err := paths.LocalAddr()
	if err != nil {
		return err
	}
	begun, err := begin(here, o)
	if err != nil {
		return err
	}
	f := begun.file
	if err := refuse(ctx, f, o.Warn); err != nil {
		return err
	}
	o.Datapath.Tables = features.Sizes(f)
	if err := here.Make(); err != nil {
		return ability.Explain(err, here.Pins)
	}
	held, err := lock(here.Lock())
	if err != nil {
		return err
	}
	defer held.Close()
	if err := begun.settle(here, o.Log); err != nil {
		return err
	}
	r, err := Open(o.Datapath)
	if err != nil {
		return ability.Explain(err, here.Pins)
	}
	defer r.Close()
	fault.At(fault.Begun, "datapath open")
	if err := r.kernel.Sweep(); err != nil {
		return ability.Explain(err, here.Pins)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &daemon{Options: o, router: r, file: f, replan: task.NewWake(), reloadStatus: newReloadStatus(o.File), text: begun.text, orders: task.NewMailbox[context.Context]()}
	defer d.orders.Close()
	d.resume(begun.onTrial)
	d.runners = startRunners(ctx, r.RunnerDoors(o.Log, d.replan.Set))
	defer d.runners.close(o.Log)
	defer cancel()
	if err := d.listen(ctx, f); err != nil {
		return err
	}
	return d.loop(ctx)
}

// refuse checks, before anything is created, whether the host can fulfil f.
func refuse(ctx context.Context, f *config.File, warn func([]state.Problem)) error {
	r, err := Look()
	if err != nil {
		return err
	}
	defer r.Close()
	return r.fits(ctx, f, warn)
}

// fits reports whether the host can fulfil f: it reads facts and plans, without a round.
func (r *Router) fits(ctx context.Context, f *config.File, warn func([]state.Problem)) error {
	facts, err := r.stages.facts(ctx, f)
	if err != nil {
		return err
	}
	if _, problems := r.stages.plan(f, facts); state.HasErrors(problems) {
		warn(problems)
		return ProblemsError(problems)
	}
	return nil
}

// daemon is the event loop's state.
type daemon struct {
	Options
	router       *Router
	file         *config.File
	runners      runners
	replan       task.Wake // a runner knows another fact
	metrics      atomic.Pointer[metricsListener]
	warned       map[string]bool // problems of the host that were shown
	ready        bool            // READY was sent
	unset        unset           // what could not be set
	reloadStatus *reloadStatus
	text         string // the configuration in force
	orders       task.Mailbox[context.Context]
	onTrial      atomic.Pointer[trial.Trial] // nil: nothing is to be confirmed
	overtime     <-chan time.Time            // the trial may be over
}

func (d *daemon) loop(ctx context.Context) error {
	changed := task.NewWake()
	if err := d.router.kernel.Watch(ctx, changed); err != nil {
		return err
	}
	if err := d.apply(ctx, tolerant); err != nil {
		return err
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, unix.SIGHUP)
	defer signal.Stop(reload)
	watchdog, stopWatchdog := watchdogTick()
	defer stopWatchdog()
	awaited := d.awaited()
	slow := time.NewTimer(readySlow)
	defer slow.Stop()
	for {
		if !d.ready && len(awaited) == 0 {
			d.begun()
		}
		var next <-chan struct{}
		if len(awaited) > 0 {
			next = awaited[0].Ready()
		}
		select {
		case <-next:
			awaited = awaited[1:]
		case <-slow.C:
			if len(awaited) > 0 {
				d.Log.Info("not ready yet", "because", awaited[0].Awaited())
				notify("STATUS=" + awaited[0].Awaited())
				slow.Reset(readySlower)
			}
		case <-ctx.Done():
			notify(systemd.SdNotifyStopping)
			d.Log.Info("stopping; forwarding continues, weft unload removes it")
			return nil
		case <-reload:
			d.reload(ctx)
		case order := <-d.orders.Asked():
			order(ctx)
		case <-d.overtime:
			d.overdue(ctx)
		case <-changed:
			d.follow(ctx, changed)
		case <-d.replan:
			d.follow(ctx, d.replan)
		case <-d.runners.retry:
			d.follow(ctx, d.replan)
		case <-d.unset.retry:
			d.follow(ctx, d.replan)
		case <-watchdog:
			notify(systemd.SdNotifyWatchdog)
		}
	}
}

// awaited returns the runners that are not yet ready.
func (d *daemon) awaited() (list []runner.Readier) {
	for _, x := range d.runners.list {
		if r, ok := x.Runner.(runner.Readier); ok && r.Ready() != nil {
			list = append(list, r)
		}
	}
	return list
}

const (
	// readySlow is how long READY may take without a message, and readySlower the
	// time between further messages.
	readySlow   = 2 * time.Second
	readySlower = 10 * time.Second
)

// begun reports that everything is in place.
func (d *daemon) begun() {
	d.ready = true
	notify(systemd.SdNotifyReady + "\nSTATUS=" + d.words())
	if d.Ready != nil {
		d.Ready()
	}
	d.Log.Info("ready", "file", d.Options.File)
}

// words is the line of systemctl status.
func (d *daemon) words() string { return d.reloadStatus.words(state.Faults(d.unset.lines())) }

func notify(state string) {
	// without systemd it has no effect
	_, _ = systemd.SdNotify(false, state)
}

// watchdogTick ticks twice in the time that systemd allows between watchdog notifications.
func watchdogTick() (<-chan time.Time, func()) {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(interval / 2)
	return t.C, t.Stop
}

// apply brings kernel, datapath and runners to the current configuration. Tolerated
// failures are tried again; all else is applied.
func (d *daemon) apply(ctx context.Context, t Tolerance) error {
	d.Level.Set(levelOf(d.file.Router().Log))
	d.runners.prepare(d.file)
	applied, err := d.router.Apply(ctx, d.file, t)
	for _, step := range applied.Steps {
		d.Log.Debug("applied", "step", step.String())
	}
	d.reloadStatus.changed(len(applied.Steps))
	var problems ProblemsError
	if errors.As(err, &problems) {
		d.Warn(problems)
	}
	if err != nil {
		d.unset.refused(err)
		return err
	}
	if len(applied.Steps) > 0 {
		d.Log.Info("applied", "steps", len(applied.Steps))
	}
	d.warn(applied.Problems)
	d.unset.update(d.Log, applied)
	d.runners.apply(ctx, d.Log, runner.Round{File: d.file, Facts: applied.Facts, Changed: len(applied.Steps) > 0})
	if d.ready {
		notify("STATUS=" + d.words())
	}
	return nil
}

// warn logs each warning about the host once.
func (d *daemon) warn(problems []state.Problem) {
	var fresh []state.Problem
	now := map[string]bool{}
	for _, p := range problems {
		now[p.String()] = true
		if !d.warned[p.String()] {
			fresh = append(fresh, p)
		}
	}
	d.warned = now
	if len(fresh) > 0 {
		d.Warn(fresh)
	}
}

func levelOf(l config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // config has checked it
	return level
}

// reload reads the file again. A file with errors changes nothing.
func (d *daemon) reload(ctx context.Context) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		notify(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", systemd.SdNotifyReloading, now.Nano()/1000))
	}
	defer func() {
		if d.ready {
			notify(systemd.SdNotifyReady + "\nSTATUS=" + d.words())
		}
	}()
	if t := d.onTrial.Load(); t != nil {
		d.reloadStatus.refused("the configuration of " + t.Name + " waits to be confirmed")
		d.Log.Error("reload refused: a configuration is on trial", "until", t.Until(), "remedy", "weft apply --confirm-now, or wait until it is reverted")
		return
	}
	text, err := os.ReadFile(d.Options.File)
	if err != nil {
		d.reloadStatus.refused(fmt.Sprintf("read configuration: %v", err))
		d.Log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	if why := d.install(ctx, d.Options.File, string(text)); why != nil {
		d.reloadStatus.refused(why...)
		return
	}
	d.reloadStatus.applied()
	d.Log.Info("reloaded", "file", d.Options.File)
}

// install puts a configuration in force. If that fails, the old one stays, and why
// has the reasons.
func (d *daemon) install(ctx context.Context, name, text string) (why []string) {
	f, problems := loaded(name, []byte(text))
	d.Warn(problems)
	if state.HasErrors(problems) {
		d.Log.Error("reload refused, the old configuration stays", "file", name, "problems", len(problems))
		return errorsOf(problems)
	}
	old := d.file
	d.file = f
	if err := d.apply(ctx, d.unset.tolerance()); err != nil {
		var problems ProblemsError
		if why = []string{err.Error()}; errors.As(err, &problems) {
			why = errorsOf(problems)
		}
		d.Log.Error("reload failed, restoring the old configuration", "error", err)
		d.file = old
		if err := d.apply(ctx, tolerant); err != nil {
			d.Log.Error("the old configuration cannot be applied either", "error", err)
		}
		return why
	}
	d.text = text
	d.listenMetrics(ctx, d.file)
	return nil
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
	if err := d.apply(ctx, tolerant); err != nil {
		d.Log.Warn("cannot apply the configuration after a change in the kernel", "error", err)
	}
}
