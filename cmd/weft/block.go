package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/feature/guard"
)

func blockCommand() *cobra.Command {
	var duration time.Duration
	var reason, file string
	c := &cobra.Command{
		Use:   "block PREFIX...",
		Short: "Let in nothing from some sources",
		Long: `Drop what comes from these addresses or prefixes on every interface that a
[guard.NAME] of weft.toml names. It is so when the command ends, within a
second with a short list. It lasts until --for has passed, weft unblock, weft
unload or a reboot; what is to last belongs into [block].
An exception of [block] stays one.`,
		Example: "  weft block 192.0.2.1 2001:db8:bad::/48 --reason \"ssh guesses\"\n  weft block 198.51.100.0/24 --for 1h\n  weft block --file list.txt --reason list",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources(c, file, args)
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
			return changeBlocked(c, prefixes, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return blockAll(list, prefixes, until, reason), nil
			})
		},
	}
	c.Flags().DurationVar(&duration, "for", 0, "for so long, like 90m; without it until weft unblock")
	c.Flags().StringVar(&reason, "reason", "", "why, for those who look later")
	sourcesFlag(c, &file)
	return c
}

func unblockCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "unblock PREFIX...",
		Short: "Let sources in again that weft block had blocked",
		Long: `Take back what weft block did. The prefixes are those that weft show blocked
lists; what weft.toml blocks, or a file that it names, stays blocked.`,
		Example: "  weft unblock 192.0.2.1",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources(c, file, args)
			if err != nil {
				return err
			}
			return changeBlocked(c, nil, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return unblockAll(list, prefixes)
			})
		},
	}
	sourcesFlag(c, &file)
	return c
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
			return nil, fmt.Errorf("weft unblock: %s is not blocked by weft block (weft show blocked lists what is)", guard.SourceText(p))
		}
	}
	return list, nil
}
