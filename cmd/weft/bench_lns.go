package main

import (
	"context"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/lns"
)

func benchLNS() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "lns", Short: "The LNS, compared with l2tpns",
		Long: `Compare weft as the LNS of L2TP tunnels and PPP sessions with l2tpns: session
set-up rate, packets and TCP in both directions with 1, 1,000 and 30,000
sessions, CPU time and memory. weft-tables is weft's eBPF programs alone.
l2tpns needs minutes to set up 30,000 sessions.`,
		Example: "  weft bench lns\n  weft bench lns --rounds 3 --case pps64-up-1000 --case tcp1-down-1000\n  weft bench lns --json | tee lns.json | weft bench chart > lns.svg",
	}
	run.flags(c, lns.Bench(bench.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", bench.DefaultSeconds, "of TCP that count in one measurement; packets take a third of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		return run.onPaths(c, lns.Bench(seconds), lns.Needs(run.Cases, run.Subjects), func(ctx context.Context, self string) (bench.Measurer, error) {
			return lns.Open(ctx, lns.Options{Weft: self, Seconds: seconds, Progress: run.note})
		})
	}
	return c
}
