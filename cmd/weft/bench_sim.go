package main

import (
	"time"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/sim"
)

func benchSim() *cobra.Command {
	var o bench.Options
	var with sim.Measurer
	var asJSON bool
	b := sim.Bench()
	c := &cobra.Command{
		Use: "sim", Short: "The simulator beside one in Python, and what a decision costs", Args: cobra.NoArgs,
		Long:    describeBench(b),
		Example: "  tools/salabim.sh\n  weft bench sim\n  weft bench sim --subject weft --json",
	}
	c.Flags().IntVar(&o.Rounds, "rounds", b.Rounds, "how many times everything is measured")
	c.Flags().StringSliceVar(&o.Cases, "case", nil, "only this case; may be given again")
	c.Flags().StringSliceVar(&o.Subjects, "subject", nil, "only this subject; may be given again")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the order of the subjects in a round")
	c.Flags().StringVar(&with.Python, "python", "build/salabim/bin/python", "an interpreter that has salabim")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a result, then the manifest")
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := b.Plan(o); err != nil {
			return err
		}
		b.Settings = map[string]string{"python": with.Python, "salabim": "26.0.9"}
		manifest := b.Describe(o, time.Now())
		progress := newBenchProgress(c)
		o.Progress = progress.show
		results, err := b.Run(c.Context(), with, o)
		progress.end()
		if err != nil {
			return err
		}
		if asJSON {
			return bench.WriteJSON(c.OutOrStdout(), results, manifest)
		}
		return b.WriteTable(c.OutOrStdout(), results, manifest)
	}
	return c
}
