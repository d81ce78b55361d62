package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
)

func applyCommand() *cobra.Command {
	var within string
	var confirm bool
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Put FILE in force, and take it back unless it is confirmed",
		Long: `Put a configuration in force in the running daemon. With --confirm it is on
trial: unless weft apply --confirm-now comes within that time, the daemon goes
back to the old one. So a mistake that cuts you off from the router undoes
itself.

Confirm over a new connection: the old one may live on although no new one can
be made, and weft refuses it there (it compares SSH_CONNECTION). The file that
weft run reads holds the old configuration until then, so a daemon that is
killed and a reboot go back too; FILE may be that file. A configuration that
was taken back is kept as unconfirmed.toml in the daemon's run directory.
Without --confirm, FILE becomes the configuration at once.`,
		Example: "  weft apply --confirm 60 new.toml\n  weft apply --confirm-now",
		Args: func(cmd *cobra.Command, args []string) error {
			if confirm {
				return cobra.NoArgs(cmd, args)
			}
			return oneFile(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft apply"); err != nil {
				return err
			}
			r, err := daemon.Look()
			if err != nil {
				return err
			}
			defer r.Close()
			session, socket := os.Getenv("SSH_CONNECTION"), r.Place.Socket()
			if confirm {
				confirmed, err := api.Confirm(cmd.Context(), socket, session)
				if err != nil {
					return err
				}
				if err := replaceFile(confirmed.File, confirmed.Text); err != nil {
					return fmt.Errorf("the configuration is in force, but the next start will not have it: %w", err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "confirmed: %s\n", confirmed.File)
				return nil
			}
			return apply(cmd, socket, session, args[0], within)
		},
	}
	c.Flags().StringVar(&within, "confirm", "", "take it back unless it is confirmed within this time, in seconds or like 2m")
	c.Flags().BoolVar(&confirm, "confirm-now", false, "confirm the configuration that is on trial")
	return c
}

func apply(cmd *cobra.Command, socket, session, file, within string) error {
	limit, err := confirmTime(within)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	a, err := api.Apply(cmd.Context(), socket, api.Change{Name: name, Text: string(text), Within: limit, Session: session})
	if err != nil {
		return err
	}
	if a.Refused != nil {
		for _, why := range a.Refused {
			fmt.Fprintln(os.Stderr, why)
		}
		return errReported
	}
	if limit == 0 {
		if err := replaceFile(a.File, string(text)); err != nil {
			return fmt.Errorf("the configuration is in force, but the next start will not have it: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "applied: %s\n", a.File)
		return nil
	}
	// edited in place: it holds the old configuration until the new one is confirmed
	if now, err := os.ReadFile(a.File); err == nil && string(now) == string(text) && a.Was != string(text) {
		if err := replaceFile(a.File, a.Was); err != nil {
			return fmt.Errorf("the configuration is on trial, but a reboot would not take it back: %w", err)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "on trial until %s: confirm it over a new connection with weft apply --confirm-now\n", a.Until.Format(time.TimeOnly))
	return nil
}

// confirmTime reads a number of seconds, or a duration; empty is none.
func confirmTime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if n, isNumber := strconv.Atoi(text); isNumber == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0, fmt.Errorf("weft apply: --confirm %s is no time from 1 second to 24h (write it like 60, or 2m)", text)
	}
	return d.Truncate(time.Second), nil
}

// replaceFile replaces the text of a file in one step, with its mode and owner.
func replaceFile(path, text string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".weft-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = draft.WriteString(text)
	if was, missing := os.Stat(path); missing == nil {
		owner := was.Sys().(*syscall.Stat_t)
		err = errors.Join(err, draft.Chown(int(owner.Uid), int(owner.Gid)), draft.Chmod(was.Mode().Perm()))
	} else if !errors.Is(missing, fs.ErrNotExist) {
		err = errors.Join(err, missing)
	}
	if err = errors.Join(err, draft.Sync(), draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
