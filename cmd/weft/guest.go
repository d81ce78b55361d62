package main

import (
	"os"

	"github.com/spf13/cobra"

	"weft/internal/lab/guest"
)

// guestCommand is what weft plays inside and beside the guests of `weft lab`:
// it is their init, too. Flags are those of commands to be run there.
func guestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "guest ROLE PATH", Short: "Serve a guest (used by weft lab)", Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) { os.Exit(guest.Main(args)) },
	}
}
