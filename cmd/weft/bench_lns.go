package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weft/internal/bench/lns"
	"weft/internal/bench/rig"
)

func benchLNS() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "lns", Short: "The server of subscribers' tunnels beside l2tpns",
		Long: `Measure weft as the server of L2TP tunnels and PPP sessions beside l2tpns: how
fast sessions come up, packets and TCP in both directions with 1, 1,000 and
30,000 sessions, time and memory. weft-tables is weft's eBPF programs alone.
30,000 sessions of l2tpns take minutes to set up.`,
		Example: "  weft bench lns\n  weft bench lns --rounds 3 --case pps64-up-1000 --case tcp1-down-1000\n  weft bench lns --json | tee lns.json | weft bench chart > lns.svg",
	}
	run.flags(c, lns.Bench(lns.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", lns.DefaultSeconds, "of TCP that count in one measurement; packets take a third of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		b := lns.Bench(seconds)
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		if err := rig.Need(lns.Needs(run.Cases, run.Subjects)...); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		ctx, stop := labContext(c)
		defer stop()
		manifest := run.describe(b)
		m, err := lns.Open(ctx, lns.Options{Weft: self, Seconds: seconds})
		if err != nil {
			return err
		}
		results, err := run.measure(ctx, b, m)
		if err := errors.Join(err, m.Close(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		return run.print(c, b, results, manifest)
	}
	return c
}
