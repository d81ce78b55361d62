package probe

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe"
)

// probeFlows opens many UDP flows, for tables that are to be full.
func flowsCommand() *cobra.Command {
	o := probe.FlowOptions{}
	var from string
	c := &cobra.Command{Use: "flows ADDRESS:PORT", Short: "Send one datagram of each of many UDP flows", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&from, "from", "2001:db8:2::/48", "one source in each /64 of it, with 250 ports")
	c.Flags().IntVar(&o.Bindings, "bindings", 1000, "sources with their ports")
	c.Flags().IntVar(&o.Each, "each", 4, "destination ports of each")
	c.Flags().IntVar(&o.Rate, "rate", 50000, "datagrams a second")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if o.To, err = netip.ParseAddrPort(args[0]); err != nil {
			return err
		}
		if o.From, err = netip.ParsePrefix(from); err != nil {
			return err
		}
		n, err := probe.Flows(c.Context(), o)
		fmt.Fprintf(c.OutOrStdout(), "sent %d datagrams\n", n)
		return err
	}
	return c
}
