package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/offload"
	"weft/internal/bench/rig"
)

func benchOffload() *cobra.Command {
	var run benchRun
	var seconds float64
	var inGuest, inside bool
	c := &cobra.Command{
		Use: "offload", Short: "Offloaded connections behind NAT, compared with the kernel's forwarding",
		Example: "  weft bench offload\n  weft bench offload --rounds 1 --case pps64-nat-1\n  weft bench offload --json > offload.json\n  weft bench offload --guest",
	}
	run.flags(c, offload.Bench(offload.DefaultSeconds), "")
	c.Long += "\nWith --guest, in a guest with Debian's kernel:\n" + describeBench(offload.GuestBench())
	c.Flags().Float64Var(&seconds, "seconds", offload.DefaultSeconds, "of TCP that count in one measurement; packets take half of it")
	c.Flags().BoolVar(&inGuest, "guest", false, "count instructions in a guest with Debian's kernel, which has a flowtable")
	c.Flags().BoolVar(&inside, "inside", false, "this is the guest")
	_ = c.Flags().MarkHidden("inside")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, needs, o := offload.Bench(seconds), offload.Needs(), offload.Options{Seconds: seconds}
		if inGuest || inside {
			b, needs, o.Table = offload.GuestBench(), offload.GuestNeeds(), offload.GuestTable
			if !c.Flags().Changed("rounds") {
				run.Rounds = b.Rounds
			}
			if !c.Flags().Changed("seconds") {
				o.Seconds = offload.GuestSeconds
			}
		}
		if inGuest {
			return run.inGuest(c, b, needs)
		}
		return run.onPaths(c, b, needs, func(ctx context.Context, self string) (bench.Measurer, error) {
			o.Weft, o.Cases = self, run.Cases
			return offload.Open(ctx, o)
		})
	}
	return c
}

// inGuest has a guest carry the same command out.
func (r *benchRun) inGuest(c *cobra.Command, b bench.Bench, needs []rig.Program) error {
	self, err := r.prepare(b, needs)
	if err != nil {
		return err
	}
	ctx, stop := labContext(c)
	defer stop()
	args := []string{"bench", "offload", "--inside", fmt.Sprintf("--rounds=%d", r.Rounds), fmt.Sprintf("--seed=%d", r.Seed), fmt.Sprintf("--json=%t", r.json)}
	for _, name := range r.Cases {
		args = append(args, "--case="+name)
	}
	for _, name := range r.Subjects {
		args = append(args, "--subject="+name)
	}
	if f := c.Flags().Lookup("seconds"); f.Changed {
		args = append(args, "--seconds="+f.Value.String())
	}
	return offload.InGuest(ctx, self, args, c.OutOrStdout(), c.ErrOrStderr())
}
