package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
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
		{"interfaces", "The devices that carry programs of weft's", `Each device of an [interface.NAME], and each translator's own, with the
programs on it. SHORTCUT says whether translated packets may leave past the
stack and its firewall.`, showInterfaces, tableInterfaces},
		{"translations", "The translators, their address rules, and what they carried", `For each [nat64.NAME] what it carried each way, and the rules by which it
changes addresses, one for each direction. The longest match wins.`, showTranslations, tableTranslations},
		{"counters", "What became of the packets", `How many packets each program decided on, by outcome; outcomes that have not
happened are left out. The first word of an outcome is the verdict:

  forward  weft sent it on, or answered it
  slow     handed to the slow path, in Go: its own decision is in the rows
           slow_path/NAME
  pass     left to the kernel as it came
  drop     dropped, for the reason that the name says

A packet may be counted by several programs on its way.`, showCounters, tableCounters},
		{"drops", "The packets that were dropped, and why", `The rows of weft show counters that are drops. What the kernel itself drops
(no route, the firewall) is not weft's to count: see nstat and nft list ruleset.`, showDrops, tableCounters},
		bridgesNoun(),
		dns64Noun(),
		failoverNoun(),
		raNoun(),
		pseudowireNoun(),
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
	show.AddCommand(bindingCommands()...)
	show.AddCommand(whoCommand())
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

func showInterfaces(_ context.Context, r *daemon.Router) (any, error) {
	facts, err := r.Facts()
	if err != nil {
		return nil, err
	}
	rows, err := api.Interfaces(r.Datapath(), facts.Links)
	return emptyNotNull(rows), err
}

func tableInterfaces(w io.Writer, rows any) {
	fmt.Fprintln(w, "DEVICE\tKIND\tSTATE\tMTU\tPROGRAMS\tSHORTCUT\tTRANSLATORS\tADDRESSES")
	for _, i := range rows.([]api.Interface) {
		state := "down"
		if i.Up {
			state = "up"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", i.Device, i.Kind, state, i.MTU,
			strings.Join(i.Programs, " "), yesNo(i.Shortcut), dash(strings.Join(i.Translators, " ")), dash(strings.Join(i.Addresses, " ")))
	}
}

func showTranslations(_ context.Context, r *daemon.Router) (any, error) {
	rows, err := api.Translations(r.Datapath())
	return emptyNotNull(rows), err
}

func tableTranslations(w io.Writer, rows any) {
	for _, t := range rows.([]api.Translation) {
		fmt.Fprintf(w, "nat64.%s on %s\n", t.Name, t.Device)
		fmt.Fprintf(w, "  IPv6 to IPv4\t%d packets\t%d bytes\n", t.To4.Packets, t.To4.Bytes)
		fmt.Fprintf(w, "  IPv4 to IPv6\t%d packets\t%d bytes\n", t.To6.Packets, t.To6.Bytes)
		for _, r := range t.Rules {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", r.From, r.To, r.Kind)
		}
	}
}

func showCounters(ctx context.Context, r *daemon.Router) (any, error) {
	rows, err := counters(ctx, r)
	return emptyNotNull(rows), err
}

func showDrops(ctx context.Context, r *daemon.Router) (any, error) {
	rows, err := counters(ctx, r)
	return emptyNotNull(api.Drops(rows)), err
}

func counters(ctx context.Context, r *daemon.Router) ([]api.Counter, error) {
	var slow api.SlowCounts
	if err := api.AskPath(ctx, r.Place.Socket(), "/v1/slow", &slow); err != nil && !errors.Is(err, api.ErrNoDaemon) {
		return nil, err
	}
	return api.Counters(r.Datapath(), slow)
}

func tableCounters(w io.Writer, rows any) {
	if len(rows.([]api.Counter)) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "PROGRAM\tOUTCOME\tPACKETS\tMEANING")
	for _, c := range rows.([]api.Counter) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Program, c.Outcome, c.Packets, c.Meaning)
	}
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
