package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"weft/internal/bench/rig"
	"weft/internal/bench/stateful"
)

func benchStateful() *cobra.Command {
	var run benchRun
	var quick bool
	o := stateful.Options{Seconds: stateful.DefaultSeconds}
	b := stateful.Bench(o.Seconds)
	c := &cobra.Command{
		Use: "nat64-stateful", Short: "Stateful translation beside stateless, and the kernel's masquerade",
		Example: "  weft bench nat64-stateful\n  weft bench nat64-stateful --quick\n  weft bench nat64-stateful --case setup --subject weft-xdp\n  weft bench nat64-stateful --json | tee nat64-stateful.json | weft bench chart > nat64-stateful.svg",
	}
	run.flags(c, b, "the order of packets and of ")
	c.Flags().Float64Var(&o.Seconds, "seconds", o.Seconds, "of TCP that count in one measurement; packets take a third of it")
	c.Flags().BoolVar(&quick, "quick", false, fmt.Sprintf("a tenth of the sessions and %d rounds: to try it, not to quote it", quickRounds))
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		if quick {
			o.Sessions = stateful.Million / 10
			if !c.Flags().Changed("rounds") {
				run.Rounds = quickRounds
			}
		}
		b := stateful.Bench(o.Seconds)
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		if err := rig.Need(stateful.Needs(run.Cases)...); err != nil {
			return err
		}
		var err error
		if o.Weft, err = os.Executable(); err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		o.Seed = run.Seed
		ctx, stop := labContext(c)
		defer stop()
		if quick {
			b.Settings["quick"] = "a tenth of the sessions: a million stands for 100,000"
		}
		manifest := run.describe(b)
		m, err := stateful.Open(ctx, o, len(run.Subjects) == 0 || slices.Contains(run.Subjects, "kernel-nat44"))
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
