package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weft/internal/bench/offload"
	"weft/internal/bench/rig"
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
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		b := offload.Bench(seconds)
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		if err := rig.Need(offload.Needs()...); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		ctx, stop := labContext(c)
		defer stop()
		manifest := run.describe(b)
		m, err := offload.Open(ctx, offload.Options{Weft: self, Seconds: seconds})
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
