package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/daemon"
)

// noun is what weft show can show.
type oldNoun struct {
	name, short string
	long        string // what the columns mean
	rows        func(ctx context.Context, r *daemon.Router) (any, error)
	table       func(w io.Writer, rows any)
}

func nouns() []oldNoun {
	return append([]oldNoun{
		dns64Noun(),
		failoverNoun(),
		raNoun(),
		statusNoun(),
	}, slices.Concat(accessNouns(), routeNouns())...)
}

func showCommand() *cobra.Command {
	show := choice(&cobra.Command{
		Use:   "show NOUN",
		Short: "Show what the router does",
		Long: `Show what the router does, as a table or with --json. It reads the pinned
maps, so it works when the daemon is down; only what the slow path counts comes
from the daemon.`,
		Example: "  weft show counters\n  weft show drops --watch\n  weft show translations --json",
	}, "noun")
	for _, n := range nouns() {
		c := oldNounCommand(n)
		switch n.name {
		case "fib":
			c = compareFlag(c)
		case "subscribers":
			c = oneSubscriber(c)
		case "l2tp-tunnels":
			c = oneTunnel(c)
		case "clients":
			c = oneClient(c)
		}
		show.AddCommand(c)
	}
	show.AddCommand(showRouteCommand())
	show.AddCommand(flowCommands()...)
	show.AddCommand(shownNouns()...)
	return show
}

func oldNounCommand(n oldNoun) *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use: n.name, Short: n.short, Long: n.long, Args: cobra.NoArgs,
		Example: "  weft show " + n.name + "\n  weft show " + n.name + " --watch\n  weft show " + n.name + " --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft show"); err != nil {
				return err
			}
			for {
				err := showOnce(cmd.Context(), cmd.OutOrStdout(), n, asJSON, watch)
				if watch && cmd.Context().Err() != nil {
					return nil // Ctrl-C in the middle of a question
				}
				if err != nil || !watch {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "again every second, until Ctrl-C")
	return c
}

func showOnce(ctx context.Context, w io.Writer, n oldNoun, asJSON, watch bool) error {
	r, err := daemon.Look()
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Datapath() == nil && !n.fromDaemon() {
		return errNothing
	}
	rows, err := n.rows(ctx, r)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, rows)
	}
	if watch {
		fmt.Fprint(w, "\x1b[H\x1b[2J")
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	n.table(t, rows)
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
