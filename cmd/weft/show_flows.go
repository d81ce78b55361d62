package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/offload"
)

// flowCommands are what [offload] has to show.
func flowCommands() []*cobra.Command {
	return []*cobra.Command{flowsCommand(), nounCommand(noun{"offload", "What is offloaded, what is not, and why", `How many connections go past the stack, and how often a flow with enough packets
stayed with it, by reason. A rule that looks at each packet (limit, quota, time,
log and the like) keeps all flows with the stack that it may apply to: put it
behind the rule that accepts established connections. Then some of the flows
that stayed with the stack of late, as they leave.`, showOffload, tableOffload})}
}

func flowsCommand() *cobra.Command {
	var f api.FlowFilter
	var address, protocol string
	last, at := map[string]uint64{}, time.Time{}
	c := nounCommand(noun{"flows", "The established connections that go past the stack", `Each offloaded flow (see [offload]): one direction of a connection, as its
packets arrive and, where NAT changes them, as they leave. For icmp the port is
the identifier of echoes. STATE is offloaded; ending: a FIN, RST or SYN came and
the stack has it; stale: rules, routes or neighbours changed, and the stack has
it until its packets have passed again. With --watch those that carry most now
come first.`, func(_ context.Context, r *daemon.Router) (any, error) {
		f := f
		f.Protocol = protocol
		limit := f.Limit
		f.Limit = 0
		var err error
		if address != "" {
			if f.Address, err = readAnyPrefix("--address", address); err != nil {
				return nil, err
			}
		}
		rows, err := api.Flows(r.Datapath(), f)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		seen := map[string]uint64{}
		for i, row := range rows {
			k := fmt.Sprint(row.Protocol, row.In, row.From, row.To)
			seen[k] = row.Bytes
			if was, known := last[k]; known && row.Bytes >= was {
				rows[i].Rate = float64(row.Bytes-was) * 8 / now.Sub(at).Seconds()
			}
		}
		if !at.IsZero() {
			slices.SortStableFunc(rows, func(a, b api.Flow) int { return cmp.Compare(b.Rate, a.Rate) })
		}
		last, at = seen, now
		if limit > 0 && len(rows) > limit {
			rows = rows[:limit]
		}
		return emptyNotNull(rows), nil
	}, tableFlows})
	flags := c.Flags()
	flags.StringVar(&protocol, "protocol", "", "only tcp, udp or icmp")
	flags.StringVar(&address, "address", "", "only with this address, or one in this prefix, at any end")
	flags.Uint16Var(&f.Port, "port", 0, "only with this port, at any end")
	flags.StringVar(&f.In, "in", "", "only those that arrive by this device")
	flags.IntVar(&f.Limit, "limit", 0, "at most so many rows; 0 is all")
	c.Example += "\n  weft show flows --watch --limit 20\n  weft show flows --address 192.0.2.0/24 --protocol tcp"
	return c
}

func tableFlows(w io.Writer, rows any) {
	list := rows.([]api.Flow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "PROTOCOL\tIN\tFROM\tTO\tAFTER NAT\tOUT\tPACKETS\tBYTES\tRATE\tIDLE\tSTATE")
	for _, f := range list {
		nat := ""
		if f.NewFrom != f.From || f.NewTo != f.To {
			nat = fmt.Sprintf("%s -> %s", f.NewFrom, f.NewTo)
		}
		out := f.Out
		if f.Link != "" {
			out += " " + f.Link
		}
		rate := ""
		if f.Rate > 0 {
			rate = fmt.Sprintf("%.0f kbit/s", f.Rate/1000)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", f.Protocol, f.In, f.From, f.To, dash(nat), out, f.Packets, f.Bytes,
			dash(rate), (time.Duration(f.Idle * float64(time.Second))).Round(100*time.Millisecond), f.State)
	}
}

func showOffload(ctx context.Context, r *daemon.Router) (any, error) {
	var s offload.Status
	err := api.Ask(ctx, r.Place.Socket(), "/v1/offload", &s)
	return s, err
}

func tableOffload(w io.Writer, rows any) {
	s := rows.(offload.Status)
	fmt.Fprintf(w, "connections\t%d\n", s.Connections)
	fmt.Fprintf(w, "ways out\t%d\n", s.Hops)
	fmt.Fprintf(w, "flows taken so far\t%d\n", s.Taken)
	if s.Looking {
		fmt.Fprintln(w, "the ruleset\tis being looked at, or cannot be read: nothing new is offloaded")
	}
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		fmt.Fprintf(w, "left to the stack\t%d\t%s\n", s.Left[why], why)
	}
	fmt.Fprintf(w, "changes of routes\t%d\tof which %d took flows back\n", s.RouteNews, s.RouteHits)
	if s.Refusals > 0 || len(s.NotRefused) > 0 {
		fmt.Fprintf(w, "refused flows so far\t%d\tof which %d are dropped early now\n", s.Refusals, len(s.Refused))
	}
	for _, why := range slices.Sorted(maps.Keys(s.NotRefused)) {
		fmt.Fprintf(w, "refused, not dropped early\t%d\t%s\n", s.NotRefused[why], why)
	}
	for _, f := range s.Refused[:min(len(s.Refused), 20)] {
		fmt.Fprintf(w, "dropped early: %s\t\tby %s\n", f.Flow, f.Rule)
	}
	for _, b := range s.Blocks {
		fmt.Fprintf(w, "%s\t\t%s\n", b.Rule, b.Why)
	}
	for _, f := range s.Recent[:min(len(s.Recent), 20)] {
		fmt.Fprintf(w, "%s\t\t%s\n", f.Flow, f.Why)
	}
}
