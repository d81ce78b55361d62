package offload

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"weft/internal/noun"
)

// Nouns are the nouns of weft show for flow offload.
func Nouns() []noun.Noun {
	return []noun.Noun{showFlows(), showOffload(), flowAges()}
}

// Source is the daemon's data about flow offload.
type Source interface {
	Offload(ctx context.Context) (Status, error)
	Ages(ctx context.Context, flows []FlowPair) ([]int, error)
}

func showOffload() noun.Noun {
	return noun.Of[Source, Status]{
		Name: "offload", Short: "Flow offload: connections, and the reasons for flows in the stack", From: noun.Daemon, One: true,
		Long: `The number of connections that bypass the stack, and how often a flow with
enough packets stayed with it, by reason. A rule that may decide differently
on each packet (limit, quota, time, log and the like) keeps all flows with the
stack that it may match: move it below the rule that accepts established
connections. Some of the flows that stayed with the stack lately follow, as
they leave.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Status, error] {
			return noun.Row(s.Offload(ctx))
		},
		Page: func(w io.Writer, rows []Status) {
			for _, s := range rows {
				s.print(w)
			}
		},
		Metrics: metrics(),
	}.Noun()
}

func (s Status) print(w io.Writer) {
	fmt.Fprintf(w, "connections\t%d\n", s.Connections)
	fmt.Fprintf(w, "ways out\t%d\n", s.Hops)
	fmt.Fprintf(w, "flows taken so far\t%d\n", s.Taken)
	if s.Looking {
		fmt.Fprintln(w, "the ruleset\tis being looked at, or cannot be read: nothing new is offloaded")
	}
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		fmt.Fprintf(w, "left to the stack\t%d\t%s\n", s.Left[why], why)
	}
	fmt.Fprintf(w, "changes of routes\t%d\tof which %d took flows back\n", s.RouteEvents, s.RouteHits)
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

// metrics are what the offloader knows; without [offload] there are none.
func metrics() []noun.Metric[Status] {
	number := func(n func(Status) float64) func(Status, func(float64, ...string)) {
		return func(s Status, put func(float64, ...string)) { put(n(s)) }
	}
	byReason := func(counts func(Status) map[Why]uint64) func(Status, func(float64, ...string)) {
		return func(s Status, put func(float64, ...string)) {
			for why, n := range counts(s) {
				put(float64(n), string(why))
			}
		}
	}
	why := []string{"why"}
	return []noun.Metric[Status]{
		noun.NewGauge("weft_offload_connections", "Connections with an offloaded direction.", nil, number(func(s Status) float64 { return float64(s.Connections) })),
		noun.NewGauge("weft_offload_hops", "Next-hop entries of offloaded flows.", nil, number(func(s Status) float64 { return float64(s.Hops) })),
		noun.NewCounter("weft_offload_flows_total", "Flows that were offloaded.", nil, number(func(s Status) float64 { return float64(s.Taken) })),
		noun.NewCounter("weft_offload_not_offloaded_total", "Flows with enough packets that stayed with the stack, by reason.", why, byReason(func(s Status) map[Why]uint64 { return s.Left })),
		noun.NewGauge("weft_offload_stack_flows", "Flows with enough packets that stay with the stack, of the last 1024, by reason.", why, func(s Status, put func(float64, ...string)) {
			for _, l := range s.Recent {
				put(1, string(l.Why))
			}
		}),
		noun.NewGauge("weft_offload_early_drop_flows", "Flows that are dropped early now.", nil, number(func(s Status) float64 { return float64(len(s.Refused)) })),
		noun.NewCounter("weft_offload_early_drop_flows_total", "Flows that were dropped early.", nil, number(func(s Status) float64 { return float64(s.Refusals) })),
		noun.NewCounter("weft_offload_not_early_dropped_total", "Refused packets whose flow was not dropped early, by reason.", why, byReason(func(s Status) map[Why]uint64 { return s.NotRefused })),
		noun.NewCounter("weft_offload_route_changes_total", "Changes of routes, by whether they returned flows to the stack.", []string{"flows"}, func(s Status, put func(float64, ...string)) {
			put(float64(s.RouteHits), "taken back")
			put(float64(s.RouteEvents-s.RouteHits), "none")
		}),
	}
}
