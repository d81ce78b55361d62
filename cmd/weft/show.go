package main

import (
	"github.com/spf13/cobra"

	"weft/internal/features"
)

func showCommand() *cobra.Command {
	show := choice(&cobra.Command{
		Use:   "show NOUN",
		Short: "Show what the router does",
		Long: `Show what the router does, as a table or with --json. It reads the pinned
maps, so it works when the daemon is down; only what the slow path counts comes
from the daemon.`,
		Example: "  weft show counters\n  weft show drops --watch\n  weft show translations --json",
	}, "noun")
	// flags are a noun's: with a misspelled noun they are not the fault to name
	show.FParseErrWhitelist.UnknownFlags = true
	for _, n := range features.Nouns() {
		if !n.Hidden {
			show.AddCommand(nounCommand(n))
		}
	}
	return show
}
