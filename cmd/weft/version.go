package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

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

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages into DIRECTORY", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			// without a date: that of SOURCE_DATE_EPOCH, or today's
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "WEFT", Section: "8", Source: "weft " + version.String(), Manual: "weft"}, args[0])
		},
	}
}
