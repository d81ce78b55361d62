// Command weft is the router of a community network.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "weft", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(labCommand(), probeCommand(), guestCommand())
	if err := root.Execute(); err != nil {
		if !errors.Is(err, errChecksFailed) {
			fmt.Fprintln(os.Stderr, "weft:", err)
		}
		os.Exit(1)
	}
}
