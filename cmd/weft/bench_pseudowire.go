package main

import (
	"context"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/pseudowire"
)

func benchPseudowire() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "pseudowire", Short: "Pseudowires, the kernel's VXLAN device and the bare underlay, and guests",
		Example: "  weft bench pseudowire\n  weft bench pseudowire --rounds 3 --case tcp1 --subject l2tpv3-udp --subject kernel-vxlan\n  weft bench pseudowire --case pps64-encap --case pps64-decap\n  weft bench pseudowire --case guest-up --case guest-down --rounds 3\n  weft bench pseudowire --json | tee pseudowire.json | weft bench report",
	}
	run.flags(c, pseudowire.Bench(bench.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", bench.DefaultSeconds, "of TCP that count in one measurement; packets take half of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		return run.onPaths(c, pseudowire.Bench(seconds), pseudowire.Needs(), func(ctx context.Context, self string) (bench.Measurer, error) {
			return pseudowire.Open(ctx, pseudowire.Options{Weft: self, Seconds: seconds, Guests: pseudowire.Guests(run.Cases, run.Subjects)})
		})
	}
	return c
}
