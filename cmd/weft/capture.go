package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/lns"
)

// captureCommand writes a subscriber's packets as a pcap file.
func captureCommand() *cobra.Command {
	o := lns.CaptureOrder{}
	var file string
	c := &cobra.Command{
		Use:   "capture WHO [-w FILE]",
		Short: "Write a subscriber's packets to a pcap file",
		Long: `Write the packets of one subscriber, in both directions, as a pcap file that
Wireshark and tcpdump read: PPP control messages, and the IP packets inside the
tunnel. WHO is a login, one of its addresses, or the number of a session from
weft show subscribers; or l2tp_client.NAME, for this router's own session with
an L2TP server. If there is no such session, the command waits for one, and
captures its packets after the login.

Packets from the subscriber are copied before the rate limit, packets to it
after the rate limit, up to 1536 bytes of each. If there are more packets than
can be read, some are missing in the file; the subscriber loses none. During a
capture, packets from this subscriber use TC instead of XDP; other subscribers
are not affected.

Without -w the file goes to standard output, for a pipe. The capture ends with
Ctrl-C, after --packets, or after --for.`,
		Example: "  weft capture alice@example.net -w alice.pcap\n" +
			"  weft capture 203.0.113.5 --packets 100 -w hundred.pcap\n" +
			"  weft capture l2tp_client.isp -w isp.pcap\n" +
			"  weft capture alice@example.net | wireshark -k -i -",
		Args: oneArgument("a login, an address or a session", "weft show subscribers lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Who = args[0]
			return runCapture(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o, file)
		},
	}
	c.Flags().StringVarP(&file, "write", "w", "", "file for the packets (default: standard output)")
	c.Flags().IntVarP(&o.Packets, "packets", "c", 1_000_000, "maximum number of packets")
	c.Flags().DurationVar(&o.For, "for", time.Hour, "maximum duration")
	return c
}

func runCapture(ctx context.Context, out, errs io.Writer, o lns.CaptureOrder, file string) error {
	if err := needRoot("weft capture"); err != nil {
		return err
	}
	if f, ok := out.(*os.File); ok && file == "" && isTerminal(f) {
		return errors.New("a pcap file on a terminal cannot be read: add -w FILE, or a pipe")
	}
	if err := o.Check(); err != nil {
		return err // before the file is written over
	}
	r, err := daemon.Look()
	if err != nil {
		return err
	}
	defer r.Close()
	socket := r.Place.Socket()
	var d lns.Details
	if err := askDetails(ctx, socket, o.Who, &d); err != nil {
		return err
	}
	to := out
	if file != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // the traffic is private
		if err != nil {
			return fmt.Errorf("create pcap file: %w", err)
		}
		defer f.Close()
		to = f
	}
	switch n := len(d.Sessions); n {
	case 0:
		fmt.Fprintf(errs, "there is no session of %q now: waiting for one, Ctrl-C ends\n", o.Who)
	case 1:
		fmt.Fprintf(errs, "capturing session %d of %s, Ctrl-C ends\n", d.Sessions[0].Session, lns.Whose(d.Sessions[0].Client, d.Sessions[0].Login))
	default:
		fmt.Fprintf(errs, "capturing %d sessions, Ctrl-C ends\n", n)
	}
	before := missed(d)
	err = api.Capture(ctx, socket, o, to)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	after := lns.Details{}
	if askDetails(context.WithoutCancel(ctx), socket, o.Who, &after) == nil && missed(after) > before {
		fmt.Fprintf(errs, "%d packets are missing: there were more than could be read\n", missed(after)-before)
	}
	return nil
}

func missed(d lns.Details) (n uint64) {
	for _, s := range d.Sessions {
		n += s.Missed
	}
	return n
}

func isTerminal(f *os.File) bool {
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

func askDetails(ctx context.Context, socket, who string, into *lns.Details) error {
	return api.Ask(ctx, socket, "subscriber", map[string]string{"who": who}, into)
}
