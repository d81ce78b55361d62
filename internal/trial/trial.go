// Package trial keeps a configuration that is on trial (weft apply --confirm): it is
// in force until its time is over, or until it is confirmed. It is kept in a file of
// the run directory: a daemon that starts again goes on with it, or takes it back.
// The file that weft run reads holds the old configuration meanwhile, so a reboot
// goes back to that.
package trial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weft/internal/paths"
	"weft/internal/state"
	"weft/internal/store/statefile"
)

// Trial is a configuration on trial.
type Trial struct {
	Name    string `json:"name"`    // of the file that it came from
	Text    string `json:"text"`    // the configuration
	Was     string `json:"was"`     // what was in force before
	End     int64  `json:"until"`   // nanoseconds of CLOCK_BOOTTIME, which cannot be set
	Session string `json:"session"` // SSH_CONNECTION of who applied it
}

func file(here paths.Dirs) string { return filepath.Join(here.Run, "trial.json") }

// Kept is the file with the text of the last configuration that was taken back.
func Kept(here paths.Dirs) string { return filepath.Join(here.Run, "unconfirmed.toml") }

// For puts a time to a trial that begins now.
func (t Trial) For(d time.Duration) *Trial {
	t.End = statefile.Boottime() + int64(d)
	return &t
}

// Read returns the trial that is kept, nil if there is none.
func Read(here paths.Dirs) (*Trial, error) {
	t := &Trial{}
	found, err := statefile.Read(file(here), t)
	if !found || err != nil {
		return nil, err
	}
	return t, nil
}

// Write keeps the trial.
func (t *Trial) Write(here paths.Dirs) error { return statefile.Write(file(here), t) }

// Left returns how long it lasts yet.
func (t *Trial) Left() time.Duration { return time.Duration(t.End - statefile.Boottime()) }

// Until gives when that is by the wall clock.
func (t *Trial) Until() time.Time { return time.Now().Add(t.Left()).Truncate(time.Second) }

// Health is the trial as a line of weft show health.
func (t *Trial) Health() state.Health {
	return state.Health{
		Feature: "router", Name: "configuration", Condition: state.Degraded,
		Because: fmt.Sprintf("%s is on trial and will be rolled back at %s", t.Name, t.Until().Format(time.TimeOnly)),
		Remedy:  "confirm it over a new connection: weft apply --confirm-now",
	}
}

// TakeBack forgets a trial whose configuration is taken back, and keeps its text.
func (t *Trial) TakeBack(here paths.Dirs) error {
	if err := os.WriteFile(Kept(here), []byte(t.Text), 0o600); err != nil {
		return fmt.Errorf("save the unconfirmed configuration: %w", err)
	}
	return Forget(here)
}

// Forget removes the trial, if there is one.
func Forget(here paths.Dirs) error {
	if err := os.Remove(file(here)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the trial: %w", err)
	}
	return nil
}
