package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe/attack"
)

// besiegeCommand, holdCommand and servedCommand are who attacks in the scenario attack,
// and whom the router serves meanwhile.
func besiegeCommand() *cobra.Command {
	f := attack.Flood{}
	var router, from, to string
	c := &cobra.Command{Use: "besiege KIND DEVICE", Short: "Send as fast as one core does: " + fmt.Sprint(attack.Kinds()), Args: cobra.ExactArgs(2)}
	c.Flags().StringVar(&router, "router", "", "the router's link address")
	c.Flags().StringVar(&from, "from", "[::]:0", "address and port of the sender, where that is one")
	c.Flags().StringVar(&to, "to", "[::]:0", "address and port that are attacked, where the kind does not say so")
	c.Flags().DurationVar(&f.For, "for", 10*time.Second, "how long")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		f.Kind, f.Device = attack.Kind(args[0]), args[1]
		if f.Router, err = net.ParseMAC(router); err != nil {
			return err
		}
		if f.From, err = netip.ParseAddrPort(from); err != nil {
			return err
		}
		if f.To, err = netip.ParseAddrPort(to); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		sent, took, err := f.Run(ctx, rand.Uint64(), func() { fmt.Fprintf(c.OutOrStdout(), "%s: it floods\n", f.Kind) })
		fmt.Fprintf(c.OutOrStdout(), "%s: sent %d frames in %.1f s, %.0f a second\n", f.Kind, sent, took.Seconds(), float64(sent)/took.Seconds())
		return err
	}
	return c
}

func holdCommand() *cobra.Command {
	var here string
	c := &cobra.Command{Use: "hold SERVER", Short: "Keep a subscriber's session over L2TP", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&here, "here", "", "address and port of the concentrator")
	c.RunE = func(c *cobra.Command, args []string) error {
		server, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return err
		}
		at, err := netip.ParseAddrPort(here)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		return attack.Hold(ctx, at, server, func() { fmt.Fprintln(c.OutOrStdout(), "the session is up") })
	}
	return c
}

// servedTries is how often each is tried: other programs take the CPU too, so the best
// counts.
const servedTries = 5

func servedCommand() *cobra.Command {
	var login, here, resolve, domain, device string
	var within time.Duration
	c := &cobra.Command{Use: "served", Short: "Log in, resolve a name, renew a lease", Args: cobra.NoArgs}
	c.Flags().StringVar(&login, "login", "", "address and port of an LNS")
	c.Flags().StringVar(&here, "here", "", "address of the concentrator")
	c.Flags().StringVar(&resolve, "resolve", "", "address and port of a name server")
	c.Flags().StringVar(&domain, "domain", "example", "domain in which every name has an address")
	c.Flags().StringVar(&device, "renew", "", "device on which DHCPv6 gives an address and a prefix")
	c.Flags().DurationVar(&within, "within", 2*time.Second, "how long each may take")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var errs []error
		if login != "" {
			server, err := netip.ParseAddrPort(login)
			at, err2 := netip.ParseAddr(here)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			errs = append(errs, best(c, "a subscriber logs in", within, func(ctx context.Context) (time.Duration, error) { return attack.Login(ctx, at, server) }))
		}
		if resolve != "" {
			server, err := netip.ParseAddrPort(resolve)
			if err != nil {
				return err
			}
			errs = append(errs, best(c, "a name resolves", within, func(ctx context.Context) (time.Duration, error) { return attack.Resolve(ctx, server, domain) }))
		}
		if device != "" {
			h, err := attack.NewHost(device)
			if err != nil {
				return err
			}
			defer h.Close()
			if err := best(c, "a host gets a lease", within, h.Lease); err != nil {
				return err
			}
			errs = append(errs, best(c, "it renews the lease", within, h.Renew))
		}
		return errors.Join(errs...)
	}
	return c
}

// best tries something some times, until one try takes less than it may.
func best(c *cobra.Command, name string, within time.Duration, one func(context.Context) (time.Duration, error)) (err error) {
	for range servedTries {
		ctx, cancel := context.WithTimeoutCause(c.Context(), within, fmt.Errorf("%s were over", within))
		var took time.Duration
		took, err = one(ctx)
		cancel()
		if err == nil && took < within {
			fmt.Fprintf(c.OutOrStdout(), "%s in %.3f s\n", name, took.Seconds())
			return nil
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: not within %s: %v\n", name, within, err)
	}
	return fmt.Errorf("%s: not within %s", name, within)
}
