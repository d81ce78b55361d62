package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/paths"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// trial is a configuration that is in force until its time is over, or until it is
// confirmed. It is kept in a file of the run directory: a daemon that starts again
// goes on with it, or takes it back. The file that weft run reads holds the old
// configuration meanwhile, so a reboot goes back to that.
type trial struct {
	Name    string `json:"name"`    // of the file that it came from
	Text    string `json:"text"`    // the configuration
	Was     string `json:"was"`     // what was in force before
	Until   int64  `json:"until"`   // nanoseconds of CLOCK_BOOTTIME, which nobody sets
	Session string `json:"session"` // SSH_CONNECTION of who applied it
}

func trialFile(here paths.Dirs) string { return filepath.Join(here.Run, "trial.json") }

// unconfirmedFile keeps the text of the last configuration that was taken back.
func unconfirmedFile(here paths.Dirs) string { return filepath.Join(here.Run, "unconfirmed.toml") }

// left gives how long it lasts yet.
func (t *trial) left() time.Duration { return time.Duration(t.Until - boottime()) }

// until gives when that is by the wall clock.
func (t *trial) until() time.Time { return time.Now().Add(t.left()).Truncate(time.Second) }

func (t *trial) health() state.Health {
	return state.Health{
		Feature: "router", Name: "configuration", Condition: state.Degraded,
		Because: fmt.Sprintf("%s is on trial, and taken back at %s", t.Name, t.until().Format(time.TimeOnly)),
		Remedy:  "confirm it over a new connection: weft apply --confirm-now",
	}
}

func boottime() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // cannot fail: the clock is there, the pointer is good
	return now.Nano()
}

// begin reads the configuration to start with: that on trial if its time is not
// over, else that of the file.
func begin(here paths.Dirs, o Options) (f *config.File, text string, onTrial *trial, err error) {
	var t trial
	found, err := statefile.Read(trialFile(here), &t)
	if err != nil {
		o.Log.Warn("cannot read which configuration is on trial; starting with the file", "error", err)
	}
	if found && err == nil {
		if t.left() > 0 {
			f, problems := loaded(t.Name, []byte(t.Text))
			if !state.HasErrors(problems) {
				o.Warn(problems)
				o.Log.Warn("going on with a configuration on trial", "file", t.Name, "until", t.until())
				return f, t.Text, &t, nil
			}
		}
		o.Log.Warn("a configuration was not confirmed in time and is taken back", "file", t.Name, "kept", unconfirmedFile(here))
		if err := t.end(here); err != nil {
			return nil, "", nil, err
		}
	}
	b, err := os.ReadFile(o.File)
	if err != nil {
		return nil, "", nil, fmt.Errorf("read configuration: %w", err)
	}
	f, problems := loaded(o.File, b)
	o.Warn(problems)
	if state.HasErrors(problems) {
		return nil, "", nil, ProblemsError(nil)
	}
	return f, string(b), nil, nil
}

// end forgets a trial whose configuration is taken back, and keeps its text.
func (t *trial) end(here paths.Dirs) error {
	if err := os.WriteFile(unconfirmedFile(here), []byte(t.Text), 0o600); err != nil {
		return fmt.Errorf("keep the configuration that was not confirmed: %w", err)
	}
	return forgetTrial(here)
}

func forgetTrial(here paths.Dirs) error {
	if err := os.Remove(trialFile(here)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the configuration on trial: %w", err)
	}
	return nil
}

// resume goes on with a trial, nil if there is none.
func (d *daemon) resume(t *trial) {
	d.onTrial.Store(t)
	if d.overtime = nil; t != nil {
		d.overtime = time.After(max(0, t.left()))
	}
}

// overdue takes the configuration back whose time is over.
func (d *daemon) overdue(ctx context.Context) {
	t := d.onTrial.Load()
	if t == nil {
		return
	}
	if t.left() > 0 {
		d.resume(t) // the machine has slept
		return
	}
	d.Log.Warn("a configuration was not confirmed in time and is taken back", "file", t.Name, "kept", unconfirmedFile(d.router.Place))
	// forgotten first: if the daemon is killed from here on, it starts with the file
	if err := t.end(d.router.Place); err != nil {
		d.Log.Error("a configuration on trial may come back at the next start", "error", err)
	}
	d.resume(nil)
	if why := d.install(ctx, d.Options.File, t.Was); why != nil {
		d.standing.refused(why...)
		return
	}
	d.standing.applied()
}

// errBusy is the answer to a second change while one is on trial.
var errBusy = errors.New("a configuration is on trial already: confirm it with weft apply --confirm-now, or wait until it is taken back")

// Apply is of api.Applier.
func (d *daemon) Apply(ctx context.Context, c api.Change) (a api.Applied, err error) {
	return a, d.order(ctx, func(ctx context.Context) error {
		if d.onTrial.Load() != nil {
			return errBusy
		}
		a.Was = d.text
		if a.File, err = filepath.Abs(d.Options.File); err != nil {
			return err
		}
		var t *trial
		if c.Within > 0 {
			t = &trial{Name: c.Name, Text: c.Text, Was: d.text, Until: boottime() + int64(c.Within), Session: c.Session}
			// written first: if the change ends the daemon, the next one takes it back
			if err := statefile.Write(trialFile(d.router.Place), t); err != nil {
				return err
			}
		}
		if a.Refused = d.install(ctx, c.Name, c.Text); a.Refused != nil {
			return forgetTrial(d.router.Place)
		}
		d.standing.applied()
		if t != nil {
			d.resume(t)
			a.Until = t.until()
		}
		d.Log.Info("applied a configuration", "file", c.Name, "confirm within", c.Within)
		return nil
	})
}

// Confirm is of api.Applier.
func (d *daemon) Confirm(ctx context.Context, session string) (c api.Confirmed, err error) {
	return c, d.order(ctx, func(context.Context) error {
		t := d.onTrial.Load()
		switch {
		case t == nil:
			return errors.New("no configuration waits to be confirmed: it may have been taken back (weft show status)")
		case session != "" && session == t.Session:
			return errors.New("this is the connection over which it was applied, and it may live on although no new one can be made: confirm it over a new connection")
		}
		if c.File, err = filepath.Abs(d.Options.File); err != nil {
			return err
		}
		c.Text = t.Text
		if err := forgetTrial(d.router.Place); err != nil {
			return err
		}
		d.resume(nil)
		d.Log.Info("the configuration is confirmed", "file", t.Name)
		return nil
	})
}

// order has the loop do something, and waits for it.
func (d *daemon) order(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	select {
	case d.orders <- func(loop context.Context) { done <- do(loop) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return <-done
}
