package probe

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe"
)

// probeNames is a name server for labs, until it is stopped.
func namesCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{Use: "names ZONEFILE", Short: "Answer DNS from a zone file", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&listen, "listen", ":53", "address and port")
	c.RunE = func(c *cobra.Command, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		zone, err := probe.ReadZone(f)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		return probe.ServeNames(ctx, listen, zone, func() { fmt.Fprintln(c.OutOrStdout(), "ready") })
	}
	return c
}
