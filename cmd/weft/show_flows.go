package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/offload"
	"weft/internal/noun"
)

// flowCommands are what [offload] has to show.
func flowCommands() []*cobra.Command {
	return []*cobra.Command{flowsCommand(), oldNounCommand(oldNoun{"offload", "What is offloaded, what is not, and why", `How many connections go past the stack, and how often a flow with enough packets
stayed with it, by reason. A rule that looks at each packet (limit, quota, time,
log and the like) keeps all flows with the stack that it may apply to: put it
behind the rule that accepts established connections. Then some of the flows
that stayed with the stack of late, as they leave.`, showOffload, tableOffload})}
}

func flowsCommand() *cobra.Command {
	var asked flowsAsked
	rates := flowRates{}
	c := oldNounCommand(oldNoun{"flows", "The established connections that go past the stack, and those that do not", `Each offloaded flow (see [offload]): one direction of a connection, as its
packets arrive and, where NAT changes them, as they leave. For icmp the port is
the identifier of echoes. AGE is since its connection was first offloaded, RATE
the mean of that time; with --watch it is the rate now, and those that carry
most come first. STATE is offloaded; ending: a FIN, RST or SYN came and the
stack has it; stale: rules, routes or neighbours changed, and the stack has it
until its packets have passed again; stack: enough of its packets passed, and it
stayed there all the same. Below the flows stands why, and what to do about it:
of the last 1024 such flows, if weft run is running. Flows with fewer packets
than minimum_packets are in neither list.`, func(ctx context.Context, r *daemon.Router) (any, error) {
		f, err := asked.filter(rates.last == nil)
		if err != nil {
			return nil, err
		}
		rows, err := api.Flows(r.Datapath(), f)
		if err != nil {
			return nil, err
		}
		rates.fill(rows, time.Now())
		rows = atMost(rows, asked.limit)
		var status offload.Status
		err = api.AskPath(ctx, r.Place.Socket(), "/v1/offload", &status)
		if err == nil {
			err = api.AskAges(ctx, r.Place.Socket(), rows)
			rows = append(rows, atMost(api.FlowsLeft(rows, status.Recent, f), asked.limit)...)
		}
		if err != nil && !errors.Is(err, api.ErrNoDaemon) && len(rows) == 0 {
			return nil, err // it offloads nothing
		}
		rates.means(rows)
		return emptyNotNull(rows), nil
	}, tableFlows})
	flags := c.Flags()
	flags.StringVar(&asked.protocol, "protocol", "", "only tcp, udp or icmp")
	flags.StringVar(&asked.address, "address", "", "only with this address, or one in this prefix, at any end")
	flags.Uint16Var(&asked.port, "port", 0, "only with this port, at any end")
	flags.StringVar(&asked.in, "in", "", "only those that arrive by this device")
	flags.StringVar(&asked.state, "state", "", "only offloaded, ending, stale or stack")
	flags.IntVar(&asked.limit, "limit", 0, "at most so many rows, of each kind; 0 is all")
	c.Example += "\n  weft show flows --watch --limit 20\n  weft show flows --address 192.0.2.0/24 --protocol tcp\n  weft show flows --state stack"
	return c
}

// flowsAsked is what the flags of weft show flows say.
type flowsAsked struct {
	protocol, address, in, state string
	port                         uint16
	limit                        int
}

// filter reads it. Whether the device is there it asks only at the first look: later
// it may be gone for a while, as a session's is.
func (a flowsAsked) filter(first bool) (api.FlowFilter, error) {
	f := api.FlowFilter{Protocol: a.protocol, Port: a.port, In: a.in, State: a.state}
	if a.limit < 0 {
		return f, fmt.Errorf("--limit %d: is no number of rows (0 is all)", a.limit)
	}
	if !slices.Contains([]string{"", "tcp", "udp", "icmp"}, a.protocol) {
		return f, fmt.Errorf("--protocol %s: tcp, udp and icmp are known", a.protocol)
	}
	if !slices.Contains([]string{"", api.StateOffloaded, api.StateEnding, api.StateStale, api.StateStack}, a.state) {
		return f, fmt.Errorf("--state %s: offloaded, ending, stale and stack are known", a.state)
	}
	if _, err := net.InterfaceByName(a.in); first && a.in != "" && err != nil {
		return f, fmt.Errorf("--in %s: there is no such device here (take its name in ip link, not that of [interface.NAME])", a.in)
	}
	if a.address == "" {
		return f, nil
	}
	var err error
	f.Address, err = noun.Prefix("--address", a.address)
	return f, err
}

func atMost(rows []api.Flow, limit int) []api.Flow {
	if limit > 0 && len(rows) > limit {
		return rows[:limit]
	}
	return rows
}

// flowRates finds out how fast flows are, from one look to the next.
type flowRates struct {
	last  map[string]uint64
	at    time.Time
	again bool // it is not the first look
}

// fill puts the fastest since the look before first; there may be none before.
func (l *flowRates) fill(rows []api.Flow, now time.Time) {
	seen := map[string]uint64{}
	for i, row := range rows {
		k := fmt.Sprint(row.Protocol, row.In, row.From, row.To)
		seen[k] = row.Bytes
		if was, known := l.last[k]; known && row.Bytes >= was {
			rows[i].Rate = float64(row.Bytes-was) * 8 / now.Sub(l.at).Seconds()
		}
	}
	if l.again = l.last != nil; l.again {
		slices.SortStableFunc(rows, func(a, b api.Flow) int { return cmp.Compare(b.Rate, a.Rate) })
	}
	l.last, l.at = seen, now
}

// means gives, at the first look, the mean of a flow's time.
func (l *flowRates) means(rows []api.Flow) {
	for i, row := range rows {
		if !l.again && row.Age != nil && *row.Age > 0 {
			rows[i].Rate = float64(row.Bytes) * 8 / float64(*row.Age)
		}
	}
}

const flowsHeader = "PROTOCOL\tIN\tFROM\tTO\tAFTER NAT\tOUT\tPACKETS\tBYTES\tRATE\tAGE\tIDLE\tSTATE"

func tableFlows(w io.Writer, rows any) {
	list := rows.([]api.Flow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	if list[0].State == api.StateStack {
		fmt.Fprintln(w, "no flow that is asked for is offloaded")
	} else {
		fmt.Fprintln(w, flowsHeader)
	}
	why := false
	for _, f := range list {
		why = why || f.Why != ""
		if f.State == api.StateStack {
			continue
		}
		out := f.Out
		if f.Link != "" {
			out += " " + f.Link
		}
		rate, age := "", ""
		if f.Rate > 0 {
			rate = measuredRate(f.Rate)
		}
		if f.Age != nil {
			age = (time.Duration(*f.Age) * time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", f.Protocol, f.In, f.From, f.To, dash(natOf(f)), out, f.Packets, f.Bytes,
			dash(rate), dash(age), idleOf(f), f.State)
	}
	if !why {
		return
	}
	fmt.Fprintln(w, "\nLEFT TO THE STACK")
	fmt.Fprintln(w, "PROTOCOL\tIN\tFROM\tTO\tAFTER NAT\tLAST LOOK\tWHY\tREMEDY")
	for _, f := range list {
		if f.Why != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Protocol, f.In, f.From, f.To, dash(natOf(f)), idleOf(f), f.Why, f.Remedy)
		}
	}
}

func natOf(f api.Flow) string {
	if f.NewFrom == f.From && f.NewTo == f.To {
		return ""
	}
	return fmt.Sprintf("%s -> %s", f.NewFrom, f.NewTo)
}

func idleOf(f api.Flow) time.Duration {
	return time.Duration(f.Idle * float64(time.Second)).Round(100 * time.Millisecond)
}

func showOffload(ctx context.Context, r *daemon.Router) (any, error) {
	var s offload.Status
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/offload", &s)
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
		fmt.Fprintf(w, "%s\t\t%s: %s\n", f.Flow, f.Why, f.Remedy)
	}
}

// measuredRate gives three digits or so of a rate in bit/s.
func measuredRate(rate float64) string {
	unit := "kbit/s"
	rate /= 1e3
	for _, larger := range []string{"Mbit/s", "Gbit/s"} {
		if rate >= 1e3 {
			rate, unit = rate/1e3, larger
		}
	}
	digits := 0
	if unit != "kbit/s" && rate < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, rate, unit)
}
