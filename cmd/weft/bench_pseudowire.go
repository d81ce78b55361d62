package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weft/internal/bench/pseudowire"
	"weft/internal/bench/rig"
)

func benchPseudowire() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "pseudowire", Short: "Pseudowires beside the kernel's VXLAN device and the bare underlay",
		Example: "  weft bench pseudowire\n  weft bench pseudowire --rounds 3 --case tcp1 --subject l2tpv3-udp --subject kernel-vxlan\n  weft bench pseudowire --case pps64-encap --case pps64-decap\n  weft bench pseudowire --json | tee pseudowire.json | weft bench report",
	}
	run.flags(c, pseudowire.Bench(pseudowire.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", pseudowire.DefaultSeconds, "of TCP that count in one measurement; packets take half of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		b := pseudowire.Bench(seconds)
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		if err := rig.Need(pseudowire.Needs()...); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		ctx, stop := labContext(c)
		defer stop()
		manifest := run.describe(b)
		m, err := pseudowire.Open(ctx, pseudowire.Options{Weft: self, Seconds: seconds})
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
