// Command weft is the edge router of a community network. One file per verb;
// flags and wiring only.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errReported ends the command with status 1 when everything has been said.
var errReported = errors.New("already reported")

func main() {
	// the first signal asks, the second one is not caught any more
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errReported) && !errors.Is(err, errChecksFailed) {
		fmt.Fprintln(os.Stderr, "weft:", err)
	}
	os.Exit(1)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "The edge router of a community network",
		Long: `weft turns a Linux machine into the edge router of a community network:
one config file, one binary, and the kernel does the work.

Verbs change state, nouns show it: weft run makes the router, weft show says
what it does, weft trace explains what it would do to a packet, and weft lab
tries it all in network namespaces that touch nothing else.`,
		Example: `  weft check weft.toml          is the file right?
  weft plan weft.toml           what would change?
  weft run weft.toml            be the router
  weft show counters            what became of the packets?
  weft lab run nat64            see it work, without a network`,
		SilenceUsage: true, SilenceErrors: true,
		DisableAutoGenTag: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddGroup(
		&cobra.Group{ID: "router", Title: "The router:"},
		&cobra.Group{ID: "look", Title: "Look and ask:"},
		&cobra.Group{ID: "try", Title: "Try and measure:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"router": {runCommand(), checkCommand(), planCommand(), unloadCommand()},
		"look":   {showCommand()},
		"try":    {labCommand(), simCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.AddCommand(probeCommand(), versionCommand(), manCommand())
	return root
}

// needRoot says what to do instead of letting a system call say EPERM.
func needRoot(what string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s needs root: try sudo", what)
	}
	return nil
}
