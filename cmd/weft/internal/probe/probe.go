// Package probe is the hidden commands of weft that make and verify traffic, for
// weft lab.
package probe

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe"
)

// Command is the traffic that `weft lab` makes inside its nodes: one JSON
// object a line on standard output.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "probe", Short: "Make and verify traffic (used by weft lab)", Hidden: true}
	c.AddCommand(pingCommand(), serveCommand(), moveCommand(), exchangeCommand(), pmtuCommand(), captureCommand(), sameCommand(), namesCommand(), attackCommand(), watchCommand(), seenCommand(), flowsCommand(), stormCommand(), malformedCommand(), browseCommand(), paceCommand(), floodCommand(), besiegeCommand(), holdCommand(), servedCommand())
	return c
}

func pingCommand() *cobra.Command {
	o := probe.PingOptions{}
	c := &cobra.Command{Use: "ping ADDRESS", Short: "Send echo requests", Args: cobra.ExactArgs(1)}
	c.Flags().IntVar(&o.Count, "count", 3, "requests to send")
	c.Flags().IntVar(&o.Size, "size", 56, "payload bytes")
	c.Flags().DurationVar(&o.Interval, "interval", 50*time.Millisecond, "between requests")
	c.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Second, "for each reply")
	c.RunE = func(c *cobra.Command, args []string) error {
		to, err := netip.ParseAddr(args[0])
		if err != nil {
			return err
		}
		e, err := probe.Ping(c.Context(), to, o, randomSeed())
		return printLine(c.OutOrStdout(), e, err)
	}
	return c
}

func serveCommand() *cobra.Command {
	var ports probe.Ports
	c := &cobra.Command{Use: "serve", Short: "Answer transfers and echo datagrams until standard input closes", Args: cobra.NoArgs}
	c.Flags().Uint16Var(&ports.TCP, "tcp", 0, "port for transfers (0: any)")
	c.Flags().Uint16Var(&ports.UDP, "udp", 0, "port for datagrams (0: any)")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := probe.Listen(ports.TCP, ports.UDP)
		if err != nil {
			return err
		}
		if err := printLine(c.OutOrStdout(), s.Ports(), nil); err != nil {
			return err
		}
		ctx, stop := untilInputCloses(c)
		defer stop()
		return s.Run(ctx, randomSeed())
	}
	return c
}

func moveCommand() *cobra.Command {
	direction, length := string(probe.Download), int64(1<<20)
	c := &cobra.Command{Use: "move ADDRESS:PORT", Short: "Transfer bytes over TCP and compare SHA-256", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&direction, "direction", direction, "download or upload")
	c.Flags().Int64Var(&length, "bytes", length, "how many")
	var over time.Duration
	c.Flags().DurationVar(&over, "over", 0, "spread evenly over at least this time")
	c.RunE = func(c *cobra.Command, args []string) error {
		to, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return err
		}
		d := probe.Direction(direction)
		if d != probe.Download && d != probe.Upload || length < 0 || length > probe.MaxTransfer {
			return fmt.Errorf("move %d bytes, direction %q: want download or upload of at most %d", length, d, probe.MaxTransfer)
		}
		t, err := probe.Move(c.Context(), to, probe.Moving{Direction: d, Length: length, Over: over}, randomSeed())
		return printLine(c.OutOrStdout(), t, err)
	}
	return c
}

func exchangeCommand() *cobra.Command {
	var sizes []int
	var timeout time.Duration
	var tries int
	c := &cobra.Command{Use: "exchange ADDRESS:PORT", Short: "Have UDP datagrams echoed", Args: cobra.ExactArgs(1)}
	c.Flags().IntSliceVar(&sizes, "size", []int{64}, "payload bytes of each datagram")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "for each echo")
	c.Flags().IntVar(&tries, "tries", 1, "how often one is sent whose echo does not come")
	c.RunE = func(c *cobra.Command, args []string) error {
		to, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return err
		}
		d, err := probe.Exchange(c.Context(), to, sizes, tries, timeout, randomSeed())
		return printLine(c.OutOrStdout(), d, err)
	}
	return c
}

func pmtuCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{Use: "pmtu ADDRESS:PORT", Short: "Discover the path MTU", Args: cobra.ExactArgs(1)}
	c.Flags().DurationVar(&timeout, "timeout", time.Second, "for each echo")
	c.RunE = func(c *cobra.Command, args []string) error {
		to, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return err
		}
		p, err := probe.DiscoverMTU(c.Context(), to, timeout, randomSeed())
		return printLine(c.OutOrStdout(), p, err)
	}
	return c
}

func captureCommand() *cobra.Command {
	c := &cobra.Command{Use: "capture DEVICE", Short: "Describe the frames that pass a device until standard input closes", Args: cobra.ExactArgs(1)}
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := untilInputCloses(c)
		defer stop()
		out := json.NewEncoder(c.OutOrStdout())
		var failed error
		ready := func() { failed = out.Encode(struct{}{}) }
		err := probe.Capture(ctx, args[0], ready, func(f probe.Frame) {
			if failed == nil {
				failed = out.Encode(f)
			}
		})
		if err != nil {
			return err
		}
		return failed
	}
	return c
}

// untilInputCloses returns a context that ends when the process that started the
// command goes away in any manner: its end of the pipe closes.
func untilInputCloses(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
	go func() {
		_, _ = io.Copy(io.Discard, c.InOrStdin())
		stop()
	}()
	return ctx, stop
}

// printLine prints a result as one line of JSON.
func printLine(w io.Writer, v any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(v)
}

func randomSeed() (seed [32]byte) {
	rand.Read(seed[:]) // never fails (crypto/rand)
	return seed
}
