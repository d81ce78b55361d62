package main

import (
	"context"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/offload"
)

func benchOffload() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "offload", Short: "Offloaded connections behind NAT beside the kernel's own forwarding",
		Example: "  weft bench offload\n  weft bench offload --rounds 1 --case pps64-nat-1\n  weft bench offload --json > offload.json",
	}
	run.flags(c, offload.Bench(offload.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", offload.DefaultSeconds, "of TCP that count in one measurement; packets take half of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		return run.onPaths(c, offload.Bench(seconds), offload.Needs(), func(ctx context.Context, self string) (bench.Measurer, error) {
			return offload.Open(ctx, offload.Options{Weft: self, Seconds: seconds})
		})
	}
	return c
}
