package guardrun

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/feature/guard"
	"weft/internal/runner"
)

// Commands are weft block and weft unblock.
func Commands(r runner.Commands) []*cobra.Command {
	return []*cobra.Command{blockCommand(r), unblockCommand(r)}
}

func blockCommand(r runner.Commands) *cobra.Command {
	var lasts config.Duration
	var reason, file string
	c := &cobra.Command{
		Use:   "block PREFIX...",
		Short: "Block traffic from source prefixes",
		Long: `Drop packets from these addresses or prefixes on every interface that a
[guard.NAME] of weft.toml lists. The block is active when the command returns,
with a short list within a second. It lasts until --for has passed, weft
unblock, weft unload or a reboot; for a permanent block, use [block].
Exceptions of [block] still apply.`,
		Example: "  weft block 192.0.2.1 2001:db8:bad::/48 --reason \"ssh guesses\"\n  weft block 198.51.100.0/24 --for 1h\n  weft block --file list.txt --reason list",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources(c, r, file, args)
			if err != nil {
				return err
			}
			duration := time.Duration(lasts)
			if c.Flags().Changed("for") && duration < time.Second {
				return fmt.Errorf("weft block: --for %s is too short (at least 1s; without --for it lasts until weft unblock)", duration)
			}
			var until time.Time
			if duration > 0 {
				until = time.Now().Add(duration).Truncate(time.Second)
			}
			return changeBlocked(c, r, prefixes, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return blockAll(list, prefixes, until, reason), nil
			})
		},
	}
	c.Flags().Var(&lasts, "for", "duration, like 90m or 5d (default: until weft unblock)")
	c.Flags().StringVar(&reason, "reason", "", "the reason, for weft show blocked")
	sourcesFlag(c, &file)
	return c
}

func unblockCommand(r runner.Commands) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "unblock PREFIX...",
		Short: "Remove blocks of weft block",
		Long: `Remove blocks that weft block has added. Give the prefixes as weft show blocked
lists them. Prefixes of weft.toml, and of files that it names, stay blocked.`,
		Example: "  weft unblock 192.0.2.1",
		Args:    someSources,
		RunE: func(c *cobra.Command, args []string) error {
			prefixes, err := sources(c, r, file, args)
			if err != nil {
				return err
			}
			return changeBlocked(c, r, nil, func(list []guard.Blocked) ([]guard.Blocked, error) {
				return unblockAll(list, prefixes)
			})
		},
	}
	sourcesFlag(c, &file)
	return c
}

// blockAll adds prefixes to a list, which may be of a million.
func blockAll(list []guard.Blocked, prefixes []netip.Prefix, until time.Time, reason string) []guard.Blocked {
	renewed := map[netip.Prefix]bool{}
	for _, p := range prefixes {
		renewed[p] = true
	}
	list = slices.DeleteFunc(list, func(b guard.Blocked) bool { return renewed[b.Prefix] })
	for _, p := range prefixes {
		if renewed[p] {
			list = append(list, guard.Blocked{Prefix: p, Until: until, Reason: reason})
			delete(renewed, p) // a prefix may be given twice
		}
	}
	return list
}

// unblockAll removes prefixes from the list, each of which must be in it.
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
			return nil, fmt.Errorf("weft unblock: %s is not blocked by weft block (weft show blocked lists the blocks)", guard.SourceText(p))
		}
	}
	return list, nil
}
