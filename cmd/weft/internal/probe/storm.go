package probe

import (
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe/lac"
)

// probeStorm is the concentrator of the scenario lns-storm, and the RADIUS
// server beside it.
func stormCommand() *cobra.Command {
	var here, steady, target string
	s := lac.Storm{}
	c := &cobra.Command{Use: "storm SERVER", Short: "Have thousands of subscribers come back at once", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&here, "here", "", "the concentrator's address; RADIUS answers there too")
	c.Flags().StringVar(&steady, "steady", "", "the address of another one, which has no storm")
	c.Flags().StringVar(&target, "target", "", "an address behind the server that answers echo requests")
	c.Flags().IntVar(&s.Sessions, "sessions", 2000, "how many")
	c.RunE = func(c *cobra.Command, args []string) error {
		for _, a := range []struct {
			text string
			port uint16
			into *netip.AddrPort
		}{{args[0], 1701, &s.Server}, {here, 1701, &s.LocalAddr}, {steady, 1701, &s.Steady}, {here, 1812, &s.RADIUS}} {
			addr, err := netip.ParseAddr(a.text)
			if err != nil {
				return err
			}
			*a.into = netip.AddrPortFrom(addr, a.port)
		}
		var err error
		if s.Target, err = netip.ParseAddr(target); err != nil {
			return err
		}
		s.Out = c.OutOrStdout()
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		return s.Run(ctx)
	}
	return c
}
