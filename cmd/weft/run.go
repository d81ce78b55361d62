package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"weft/internal/daemon"
	"weft/internal/state"
)

func runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run the router that FILE describes",
		Long: `Apply the configuration and keep it applied, in the foreground, until SIGINT
or SIGTERM. SIGHUP reads the file again; a file with errors changes nothing.
Without FILE it is /etc/weft/weft.toml.

The state of weft in the kernel stays when the daemon stops or dies: packets are
forwarded as before, and only the rare ones that need the slow path are lost.
weft unload removes everything. Under systemd the daemon reports READY,
RELOADING and STOPPING and serves the watchdog (packaging/weft.service).`,
		Example: "  weft run /etc/weft/weft.toml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft run"); err != nil {
				return err
			}
			level := new(slog.LevelVar)
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			err := daemon.Run(cmd.Context(), daemon.Options{
				File: fileOf(args), Log: log, Level: level,
				Warn: func(problems []state.Problem) { printProblems(os.Stderr, problems) },
			})
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // it was asked to stop while it started
			}
			return hideProblems(err)
		},
	}
}

// hideProblems: they have been printed one by one.
func hideProblems(err error) error {
	var problems daemon.ProblemsError
	if errors.As(err, &problems) {
		return errReported
	}
	return err
}

// standardFile is what a command reads that is given no file.
const standardFile = "/etc/weft/weft.toml"

// fileOf is the file of a command that takes one, or none.
func fileOf(args []string) string {
	if len(args) == 0 {
		return standardFile
	}
	return args[0]
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one file, like %s weft.toml; without one it reads %s", cmd.CommandPath(), cmd.CommandPath(), standardFile)
	}
	return nil
}
