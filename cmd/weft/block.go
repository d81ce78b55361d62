package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/guard"
)

func blockCommand() *cobra.Command {
	var duration time.Duration
	var reason string
	c := &cobra.Command{
		Use:   "block PREFIX...",
		Short: "Let in nothing from some sources",
		Long: `Drop what comes from these addresses or prefixes on every interface that a
[guard.NAME] of weft.toml names, within a second. It lasts until --for has
passed, weft unblock, weft unload or a reboot; what is to last belongs into
[block].
An exception of [block] stays one.`,
		Example: "  weft block 192.0.2.1 2001:db8:bad::/48 --reason \"ssh guesses\"\n  weft block 198.51.100.0/24 --for 1h",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources("weft block", args)
			if err != nil {
				return err
			}
			if c.Flags().Changed("for") && duration < time.Second {
				return fmt.Errorf("weft block: --for %s is over at once (at least 1s; without --for it lasts until weft unblock)", duration)
			}
			var until time.Time
			if duration > 0 {
				until = time.Now().Add(duration).Truncate(time.Second)
			}
			return changeBlocked(c, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return blockAll(list, prefixes, until, reason), nil
			})
		},
	}
	c.Flags().DurationVar(&duration, "for", 0, "for so long, like 90m; without it until weft unblock")
	c.Flags().StringVar(&reason, "reason", "", "why, for those who look later")
	return c
}

func unblockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unblock PREFIX...",
		Short: "Let sources in again that weft block had blocked",
		Long: `Take back what weft block did. The prefixes are those that weft show blocked
lists; what weft.toml blocks, or a file that it names, stays blocked.`,
		Example: "  weft unblock 192.0.2.1",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources("weft unblock", args)
			if err != nil {
				return err
			}
			return changeBlocked(c, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return unblockAll(list, prefixes)
			})
		},
	}
}

// blockAll adds prefixes to a list, which may be of a million.
func blockAll(list []guard.Blocked, prefixes []netip.Prefix, until time.Time, reason string) []guard.Blocked {
	anew := map[netip.Prefix]bool{}
	for _, p := range prefixes {
		anew[p] = true
	}
	list = slices.DeleteFunc(list, func(b guard.Blocked) bool { return anew[b.Prefix] })
	for _, p := range prefixes {
		if anew[p] {
			list = append(list, guard.Blocked{Prefix: p, Until: until, Reason: reason})
			delete(anew, p) // who is named twice
		}
	}
	return list
}

// unblockAll takes prefixes out of it, each of which must be there.
func unblockAll(list []guard.Blocked, prefixes []netip.Prefix) ([]guard.Blocked, error) {
	gone := map[netip.Prefix]bool{}
	for _, p := range prefixes {
		gone[p] = false
	}
	list = slices.DeleteFunc(list, func(b guard.Blocked) bool {
		_, named := gone[b.Prefix]
		if named {
			gone[b.Prefix] = true
		}
		return named
	})
	for _, p := range prefixes {
		if !gone[p] {
			return nil, fmt.Errorf("weft unblock: %s is not blocked by weft block (weft show blocked lists what is)", sourceText(p))
		}
	}
	return list, nil
}

func someSources(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s takes addresses or prefixes, like 192.0.2.1 or 2001:db8::/32", c.CommandPath())
	}
	return nil
}

func sources(what string, args []string) (list []netip.Prefix, err error) {
	if err := needRoot(what); err != nil {
		return nil, err
	}
	for _, a := range args {
		p, err := guard.ParsePrefix(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if p.Bits() == 0 {
			return nil, fmt.Errorf("%s: %s is everybody", what, p)
		}
		list = append(list, p)
	}
	return list, nil
}

func changeBlocked(c *cobra.Command, change func([]guard.Blocked) ([]guard.Blocked, error)) error {
	r, err := daemon.Look()
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Datapath() == nil {
		return errNothing
	}
	if err := r.SetBlocked(change); err != nil {
		return err
	}
	guards, err := api.Guards(r.Datapath())
	if err != nil {
		return err
	}
	var status api.Status
	err = api.Ask(c.Context(), r.Place.Socket(), "/v1/status", &status)
	switch {
	case errors.Is(err, api.ErrNoDaemon):
		fmt.Fprintln(c.ErrOrStderr(), "noted; weft run is not running, and takes it up when it starts")
		return nil
	case err == nil && len(guards) == 0:
		fmt.Fprintln(c.ErrOrStderr(), "noted; no interface is guarded, so nothing is dropped: weft.toml needs a [guard.NAME]")
	}
	return err
}

func guardNouns() []noun {
	return []noun{
		{"guards", "The interfaces that are guarded, and by what", `For each interface that a [guard.NAME] names: where the guard looks, whether it
asks for the way back to sources, whether bogons are dropped, and how much a
second is let in. What was dropped is in weft show drops.`, showGuards, tableGuards},
		{"blocked", "The sources that weft block has blocked", `The sources that were blocked while the router runs, until when, and why. Those
of [block] in weft.toml are in the file.`, showBlocked, tableBlocked},
	}
}

func showGuards(_ context.Context, r *daemon.Router) (any, error) {
	return api.Guards(r.Datapath())
}

func tableGuards(w io.Writer, rows any) {
	list := rows.([]api.GuardRow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "INTERFACE\tHOOK\tREVERSE PATH\tBOGONS\tLET IN A SECOND")
	for _, g := range list {
		bogons := "let in"
		if g.Bogons {
			bogons = "dropped"
		}
		var rates []string
		for _, name := range api.GuardRates() {
			if n := g.PerSecond[name]; n > 0 {
				rates = append(rates, fmt.Sprintf("%s %d", name, n))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.Device, g.Hook, g.ReversePath, bogons, dash(strings.Join(rates, ", ")))
	}
}

func showBlocked(_ context.Context, r *daemon.Router) (any, error) {
	list, err := r.Blocked()
	return emptyNotNull(list), err
}

func tableBlocked(w io.Writer, rows any) {
	list := rows.([]guard.Blocked)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "SOURCE\tUNTIL\tREASON")
	for _, b := range list {
		until := "unblocked"
		if !b.Until.IsZero() {
			until = b.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", sourceText(b.Prefix), until, dash(b.Reason))
	}
}

func sourceText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
