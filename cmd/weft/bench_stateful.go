package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/stateful"
)

func benchStateful() *cobra.Command {
	var run benchRun
	var quick bool
	o := stateful.Options{Seconds: bench.DefaultSeconds}
	b := stateful.Bench(o.Seconds)
	c := &cobra.Command{
		Use: "nat64-stateful", Short: "Stateful translation, compared with stateless and the kernel's masquerade",
		Example: "  weft bench nat64-stateful\n  weft bench nat64-stateful --quick\n  weft bench nat64-stateful --case setup --subject weft-xdp\n  weft bench nat64-stateful --json | tee nat64-stateful.json | weft bench chart > nat64-stateful.svg",
	}
	run.flags(c, b, "the order of packets and of ")
	c.Flags().Float64Var(&o.Seconds, "seconds", o.Seconds, "of TCP that count in one measurement; packets take a third of it")
	c.Flags().BoolVar(&quick, "quick", false, fmt.Sprintf("a tenth of the sessions and %d rounds: for a test, not for publication", quickRounds))
	c.RunE = func(c *cobra.Command, args []string) error {
		if quick {
			o.Sessions = stateful.Million / 10
			if !c.Flags().Changed("rounds") {
				run.Rounds = quickRounds
			}
		}
		b := stateful.Bench(o.Seconds)
		if quick {
			b.Settings["quick"] = "a tenth of the sessions: a million stands for 100,000"
		}
		return run.onPaths(c, b, stateful.Needs(run.Cases), func(ctx context.Context, self string) (bench.Measurer, error) {
			o.Weft, o.Seed = self, run.Seed
			return stateful.Open(ctx, o, len(run.Subjects) == 0 || slices.Contains(run.Subjects, "kernel-nat44"))
		})
	}
	return c
}
