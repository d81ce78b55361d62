package main

import (
	"github.com/spf13/cobra"

	"weft/internal/bench/sim"
)

func benchSim() *cobra.Command {
	var run benchRun
	var with sim.Measurer
	b := sim.Bench()
	c := &cobra.Command{
		Use: "sim", Short: "The simulator, compared with one in Python, and the cost of a decision",
		Example: "  tools/salabim.sh\n  weft bench sim\n  weft bench sim --subject weft --json",
	}
	run.flags(c, b, "")
	c.Flags().StringVar(&with.Python, "python", "build/salabim/bin/python", "an interpreter that has salabim")
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		b.Settings = map[string]string{"python": with.Python, "salabim": "26.0.9"}
		manifest := run.describe(b)
		results, err := run.measure(c.Context(), b, with)
		if err != nil {
			return err
		}
		return run.print(c, b, results, manifest)
	}
	return c
}
