package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/paths"
	"weft/internal/state"
	"weft/internal/trial"
)

// start is the configuration to start with.
type start struct {
	file    *config.File
	text    string
	onTrial *trial.Trial // nil: nothing is to be confirmed
	over    *trial.Trial // was not confirmed in time, and is not forgotten yet
}

// begin reads the configuration to start with: the one on trial if its time is not
// over, else that of the file. It changes nothing: another daemon may run here.
func begin(here paths.Dirs, o Options) (s start, err error) {
	t, err := trial.Read(here)
	if err != nil {
		o.Log.Warn("cannot read the configuration on trial; starting with the file", "error", err)
	}
	if t != nil {
		if t.Left() > 0 {
			f, problems := loaded(t.Name, []byte(t.Text))
			if !state.HasErrors(problems) {
				o.Warn(problems)
				return start{file: f, text: t.Text, onTrial: t}, nil
			}
		}
		s.over = t
	}
	b, err := os.ReadFile(o.File)
	if err != nil {
		return s, fmt.Errorf("read configuration: %w", err)
	}
	var problems []state.Problem
	s.file, problems = loaded(o.File, b)
	s.text = string(b)
	o.Warn(problems)
	if state.HasErrors(problems) {
		return s, ProblemsError(nil)
	}
	return s, nil
}

// settle deletes a trial that is over, once no other daemon can run here.
func (s start) settle(here paths.Dirs, log *slog.Logger) error {
	if t := s.onTrial; t != nil {
		log.Warn("continuing with a configuration on trial", "file", t.Name, "until", t.Until())
	}
	if s.over == nil {
		return nil
	}
	log.Warn("a configuration was not confirmed in time and is reverted", "file", s.over.Name, "kept", trial.Kept(here))
	return s.over.TakeBack(here)
}

// resume continues a trial; nil: there is none.
func (d *daemon) resume(t *trial.Trial) {
	d.onTrial.Store(t)
	if d.overtime = nil; t != nil {
		d.overtime = time.After(max(0, t.Left()))
	}
}

// overdue reverts a configuration whose time to be confirmed is over.
func (d *daemon) overdue(ctx context.Context) {
	t := d.onTrial.Load()
	if t == nil {
		return
	}
	if t.Left() > 0 {
		d.resume(t) // the machine has slept
		return
	}
	d.Log.Warn("a configuration was not confirmed in time and is reverted", "file", t.Name, "kept", trial.Kept(d.router.Place))
	// deleted first: if the daemon is killed from here on, it starts with the file
	if err := t.TakeBack(d.router.Place); err != nil {
		d.Log.Error("cannot delete the configuration on trial; it may be used at the next start", "error", err)
	}
	d.resume(nil)
	if why := d.install(ctx, d.Options.File, t.Was); why != nil {
		d.reloadStatus.refused(why...)
		return
	}
	d.reloadStatus.applied()
}

// errBusy is the answer to a second change while one is on trial.
var errBusy = errors.New("a configuration is on trial already: confirm it with weft apply --confirm-now, or wait until it is reverted")

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
		var t *trial.Trial
		if c.Within > 0 {
			t = trial.Trial{Name: c.Name, Text: c.Text, Was: d.text, Session: c.Session}.For(c.Within)
			// written first: if the change ends the daemon, the next one reverts it
			if err := t.Write(d.router.Place); err != nil {
				return err
			}
		}
		if a.Refused = d.install(ctx, c.Name, c.Text); a.Refused != nil {
			return trial.Forget(d.router.Place)
		}
		d.reloadStatus.applied()
		if t != nil {
			d.resume(t)
			a.Until = t.Until()
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
			return errors.New("there is no configuration to confirm: it may have been reverted (weft show status)")
		case session != "" && session == t.Session:
			return errors.New("this is the connection over which it was applied, which may survive although no new connection is possible: confirm it over a new connection")
		}
		if c.File, err = filepath.Abs(d.Options.File); err != nil {
			return err
		}
		c.Text = t.Text
		if err := trial.Forget(d.router.Place); err != nil {
			return err
		}
		d.resume(nil)
		d.Log.Info("the configuration is confirmed", "file", t.Name)
		return nil
	})
}

// order runs a function in the loop, and waits for it.
func (d *daemon) order(ctx context.Context, do func(context.Context) error) (err error) {
	asked := d.orders.Ask(ctx, func(loop context.Context) { err = do(loop) })
	return cmp.Or(asked, err)
}
