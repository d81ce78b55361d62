package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"weft/internal/version"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Long:    "Print the version, the commit it was built from, and the version of Go.",
		Example: "  weft version\n  weft version --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{"version": version.String(), "commit": version.Commit(), "go": runtime.Version()})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "weft %s, %s\n", version.String(), runtime.Version())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
