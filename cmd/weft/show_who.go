package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
)

func whoCommand() *cobra.Command {
	var file, protocol string
	var asJSON bool
	c := &cobra.Command{
		Use:   "who ADDRESS PORT [TIME]",
		Short: "Who had a port of a shared address at a time",
		Long: `Which IPv6 node had a port of a shared IPv4 address at a time, from the log of
allocations that a stateful translator keeps (allocation_log in weft.toml), or
from its fixed blocks of ports. For icmp the port is the identifier of echoes.

TIME is like 2026-05-01T12:34:56Z or "2026-05-01 12:34:56" (local time), or how
long ago, like 90m; without it, now. Times are good to a tenth of a second, and
only as good as this machine's clock and that of who asks.`,
		Example: "  weft show who 203.0.113.1 4711 2026-05-01T12:34:56Z\n  weft show who 203.0.113.1 4711 90m --protocol tcp --json\n  weft show who 203.0.113.1 4711 --file /var/lib/weft/main.allocations",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return fmt.Errorf("%s takes an address, a port and a time: like 203.0.113.1 4711 2026-05-01T12:34:56Z", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := needRoot("weft show"); err != nil {
				return err
			}
			q, err := readWho(args, protocol, time.Now())
			if err != nil {
				return err
			}
			rows, err := who(c.Context(), q, file)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(emptyNotNull(rows))
			}
			tableWho(c.OutOrStdout(), rows)
			return nil
		},
	}
	c.Flags().StringVar(&protocol, "protocol", "", "only tcp, udp or icmp")
	c.Flags().StringVar(&file, "file", "", "read this log; no weft run may have it open")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func readWho(args []string, protocol string, now time.Time) (q api.WhoQuery, err error) {
	a, err := netip.ParseAddr(args[0])
	if err != nil || !a.Is4() {
		return q, fmt.Errorf("%q is no IPv4 address", args[0])
	}
	port, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil {
		return q, fmt.Errorf("%q is no port", args[1])
	}
	q.IPv4, q.At = netip.AddrPortFrom(a, uint16(port)), now
	if i := slices.Index([]string{"", "tcp", "udp", "icmp"}, protocol); i >= 0 {
		q.Protocol = []uint8{0, 6, 17, 1}[i]
	} else {
		return q, fmt.Errorf("--protocol %q is none of tcp, udp and icmp", protocol)
	}
	if len(args) < 3 {
		return q, nil
	}
	if q.At, err = readTime(args[2], now); err == nil && q.At.After(now.Add(time.Minute)) {
		err = fmt.Errorf("%s is yet to come: ask for a time that is over", q.At.Format(time.RFC3339))
	}
	return q, err
}

func readTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago.Abs()), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return now, fmt.Errorf("%q is no time: write it like 2026-05-01T12:34:56Z, or 90m for ninety minutes ago", text)
}

func who(ctx context.Context, q api.WhoQuery, file string) ([]api.Holder, error) {
	r, err := daemon.Look()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if file != "" {
		names := map[int]string{}
		if d := r.Datapath(); d != nil {
			if names, err = api.TranslatorNames(d); err != nil {
				return nil, err
			}
		}
		return daemon.WhoInFile(file, q, names)
	}
	rows, err := api.AskWho(ctx, r.Place.Socket(), q)
	if errors.Is(err, api.ErrNoDaemon) {
		return nil, fmt.Errorf("%w; --file reads the log without it", err)
	}
	return rows, err
}

func tableWho(w io.Writer, rows []api.Holder) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "nobody, as far as the log goes")
		return
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TRANSLATOR\tPROTOCOL\tIPV4\tIPV6\tFROM\tUNTIL\tNOTE")
	for _, h := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", dash(h.Translator), h.Protocol, h.IPv4, h.IPv6, moment(h.From), moment(h.Until), h.Note)
	}
	t.Flush()
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.0Z")
}
