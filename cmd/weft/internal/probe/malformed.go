package probe

import (
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe/lac"
)

// probeMalformed is the peer of the scenario lns-malformed.
func malformedCommand() *cobra.Command {
	var here, steady, target string
	c := &cobra.Command{Use: "malformed SERVER", Short: "Send malformed messages to an L2TP server", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&here, "here", "", "the address that it comes from; RADIUS answers there too")
	c.Flags().StringVar(&steady, "steady", "", "the address of a concentrator that behaves")
	c.Flags().StringVar(&target, "target", "", "an address behind the server that answers echo requests")
	c.RunE = func(c *cobra.Command, args []string) error {
		var addrs [4]netip.Addr
		for i, text := range []string{args[0], here, steady, target} {
			var err error
			if addrs[i], err = netip.ParseAddr(text); err != nil {
				return err
			}
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		return lac.Malformed{
			Server: netip.AddrPortFrom(addrs[0], 1701), LocalAddr: netip.AddrPortFrom(addrs[1], 20000), RADIUS: netip.AddrPortFrom(addrs[1], 1812),
			Steady: netip.AddrPortFrom(addrs[2], 1701), Target: addrs[3], Out: c.OutOrStdout(),
		}.Run(ctx)
	}
	return c
}
