package probe

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe"
)

// probeBrowse, probePace and probeFlood are the load of labs: a household, one
// steady flow, and who attacks.
func browseCommand() *cobra.Command {
	o := probe.BrowseOptions{}
	var lost float64
	c := &cobra.Command{Use: "browse ADDRESS:PORT...", Short: "Use servers as a household does, and verify every byte", Args: cobra.MinimumNArgs(1)}
	c.Flags().IntVar(&o.Connections, "connections", 200, "how many at a time")
	c.Flags().DurationVar(&o.For, "for", 5*time.Second, "how long new ones begin")
	c.Flags().Int64Var(&o.Short, "short", 16<<10, "bytes of a short transfer")
	c.Flags().Int64Var(&o.Long, "long", 1<<20, "bytes of a long one")
	c.Flags().DurationVar(&o.Timeout, "timeout", 20*time.Second, "for a transfer, and for a datagram's echo")
	c.Flags().Float64Var(&lost, "lost", 2, "percent of datagrams that may be lost, as they are not retransmitted")
	c.RunE = func(c *cobra.Command, args []string) error {
		var targets []netip.AddrPort
		for _, a := range args {
			to, err := netip.ParseAddrPort(a)
			if err != nil {
				return err
			}
			targets = append(targets, to)
		}
		b := probe.Browse(c.Context(), targets, o, randomSeed())
		if err := printLine(c.OutOrStdout(), b, nil); err != nil {
			return err
		}
		if b.Intact != b.Transfers || float64(b.Datagrams-b.Answered) > float64(b.Datagrams)*lost/100 {
			return fmt.Errorf("%d of %d transfers are whole, %d of %d datagrams came back", b.Intact, b.Transfers, b.Answered, b.Datagrams)
		}
		fmt.Fprintln(c.OutOrStdout(), "all whole")
		return nil
	}
	return c
}

func paceCommand() *cobra.Command {
	var from uint16
	var count int
	var pace time.Duration
	c := &cobra.Command{Use: "pace ADDRESS:PORT", Short: "Send datagrams of one flow at an even pace", Args: cobra.ExactArgs(1)}
	c.Flags().Uint16Var(&from, "from", 0, "source port (0: any)")
	c.Flags().IntVar(&count, "count", 1000, "how many")
	c.Flags().DurationVar(&pace, "pace", 2*time.Millisecond, "one each")
	c.RunE = func(c *cobra.Command, args []string) error {
		to, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		sent, err := probe.Pace(ctx, to, from, count, pace)
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "sent %d datagrams\n", sent)
		}
		return err
	}
	return c
}

func floodCommand() *cobra.Command {
	f := probe.Flood{}
	var source, to, address, from, kind string
	c := &cobra.Command{Use: "flood DEVICE", Short: "Send many unsolicited packets, bounded", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&kind, "kind", "ports", "ports, syn, icmp, bogons, refused or source")
	c.Flags().StringVar(&source, "source", "", "the sender's link address")
	c.Flags().StringVar(&to, "to", "", "the router's link address")
	c.Flags().StringVar(&address, "address", "", "IPv4 address that is attacked")
	c.Flags().StringVar(&from, "from", "192.0.2.66", "who sends, where that is one")
	c.Flags().Uint16Var(&f.Port, "port", 80, "of SYNs and of the one flow")
	c.Flags().IntVar(&f.Count, "count", 1000, "how many")
	c.Flags().IntVar(&f.PerBatch, "batch", 20, "how many at once")
	c.Flags().DurationVar(&f.Pause, "pause", 10*time.Millisecond, "between batches")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		f.Kind = probe.FloodKind(kind)
		if f.Source, err = net.ParseMAC(source); err != nil {
			return err
		}
		if f.To, err = net.ParseMAC(to); err != nil {
			return err
		}
		if f.Address, err = netip.ParseAddr(address); err != nil {
			return err
		}
		if f.From, err = netip.ParseAddr(from); err != nil {
			return err
		}
		sent, err := f.Run(c.Context(), args[0], rand.Uint64())
		if err == nil {
			fmt.Fprintf(c.OutOrStdout(), "sent %d packets\n", sent)
		}
		return err
	}
	return c
}
