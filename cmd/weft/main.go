// Command weft is the edge router of a community network. One file per verb;
// flags and wiring only.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/probe"
	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/features"
	"weft/internal/runner"
	"weft/internal/version"
)

// errReported ends the command with status 1 when the errors have been printed.
var errReported = errors.New("already reported")

func main() {
	// the first signal asks, the second one is not caught any more
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	c, err := rootCommand().ExecuteContextC(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errReported) && !errors.Is(err, errChecksFailed) {
		fmt.Fprintln(os.Stderr, "weft:", explain(c, err))
	}
	os.Exit(1)
}

// explain adds to what cobra says of missing flags where to read about them.
func explain(c *cobra.Command, err error) error {
	if strings.HasPrefix(err.Error(), "required flag(s)") {
		return fmt.Errorf("%s: %w (%s --help explains them)", c.CommandPath(), err, c.CommandPath())
	}
	return err
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "The edge router of a community network",
		Long: `weft turns a Linux machine into the edge router of a community network:
one config file, one binary, and the kernel forwards the packets.

Verbs change state, nouns show it: weft run is the router, weft show shows its
state, weft trace explains what it would do with a packet, and weft lab tests
it in network namespaces that change nothing else.`,
		Example: `  weft check weft.toml          report the errors of the file
  weft plan weft.toml           show what would change
  weft run weft.toml            run the router
  weft show counters            count packets by outcome
  weft lab run nat64            run the demo, without a network`,
		SilenceUsage: true, SilenceErrors: true,
		Version:           version.String(),
		DisableAutoGenTag: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetVersionTemplate("weft {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%s: %w (%s --help lists the flags)", c.CommandPath(), err, c.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "router", Title: "The router:"},
		&cobra.Group{ID: "look", Title: "Show and explain:"},
		&cobra.Group{ID: "try", Title: "Test and measure:"},
	)
	router := []*cobra.Command{
		runCommand(), checkCommand(), planCommand(), applyCommand(), unloadCommand(), reportCommand(), importCommand(), flushCommand(), kickCommand(), captureCommand(),
	}
	for group, commands := range map[string][]*cobra.Command{
		"router": append(router, features.Commands(forFeatures())...),
		"look":   {showCommand(), traceCommand()},
		"try":    {labCommand(), benchCommand(), simCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.AddCommand(probe.Command(), guestCommand(), versionCommand(), manCommand())
	addCompletion(root)
	return root
}

// forFeatures is what the commands of features may use.
func forFeatures() runner.Commands {
	return runner.Commands{
		Root: needRoot,
		Open: func() (runner.Doors, func() error, error) {
			r, err := daemon.Look()
			if err != nil {
				return runner.Doors{}, nil, err
			}
			if r.Doors().Datapath == nil {
				return runner.Doors{}, nil, errors.Join(errNothing, r.Close())
			}
			return r.Doors(), r.Close, nil
		},
		Show: func(ctx context.Context, d runner.Doors, noun string, into any) error {
			err := api.Ask(ctx, d.Paths.Socket(), noun, nil, into)
			if errors.Is(err, api.ErrNoDaemon) {
				return runner.ErrNoDaemon
			}
			return err
		},
	}
}

// choice makes c a command that is nothing without one of its subcommands: on
// its own it explains itself, and a misspelled subcommand is an error.
func choice(c *cobra.Command, what string) *cobra.Command {
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := fmt.Sprintf("%s --help lists them", c.CommandPath())
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			hint = "did you mean " + strings.Join(like, " or ") + "?"
		}
		return fmt.Errorf("%s has no %s %q: %s", c.CommandPath(), what, args[0], hint)
	}
	return c
}

// oneArgument wants exactly one, and says what it is and where to find it.
func oneArgument(what, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes %s: %s", c.CommandPath(), what, hint)
		}
		return nil
	}
}

// needRoot returns what to do instead of letting a system call say EPERM.
func needRoot(what string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s needs root: try sudo", what)
	}
	return nil
}
