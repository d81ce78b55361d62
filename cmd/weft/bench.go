package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/lns"
	"weft/internal/bench/lookup"
	"weft/internal/bench/nat64"
	"weft/internal/bench/offload"
	"weft/internal/bench/pseudowire"
	"weft/internal/bench/sim"
	"weft/internal/bench/stateful"
)

func benchCommand() *cobra.Command {
	c := choice(&cobra.Command{
		Use:   "bench WHAT",
		Short: "Compare weft with other programs",
		Long: `Compare weft with other programs, all in network namespaces of this machine.
Every round measures every subject in every case once. Absolute figures depend
on the machine; compare only within one run, on an otherwise idle machine.`,
		Example: "  weft bench nat64\n  weft bench fib\n  weft bench nat64 --json | weft bench chart > nat64.svg",
	}, "measurement")
	c.AddCommand(
		benchNAT64(), benchStateful(), benchFIB(), benchLNS(), benchSim(), benchPseudowire(), benchOffload(),
		benchReport(), benchChart())
	return c
}

func benchNAT64() *cobra.Command {
	var run benchRun
	var seconds float64
	c := &cobra.Command{
		Use: "nat64", Short: "The translator, Tayga, the kernel's forwarding, and XDP forwarding",
		Example: "  weft bench nat64\n  weft bench nat64 --rounds 1 --case tcp1-6to4 --subject weft-tc --subject tayga\n  weft bench nat64 --json | tee nat64.json | weft bench chart > nat64.svg",
	}
	run.flags(c, nat64.Bench(bench.DefaultSeconds), "")
	c.Flags().Float64Var(&seconds, "seconds", bench.DefaultSeconds, "of TCP that count in one measurement; packets take a third of it")
	c.RunE = func(c *cobra.Command, args []string) error {
		return run.onPaths(c, nat64.Bench(seconds), nat64.Needs(run.Cases, run.Subjects), func(ctx context.Context, self string) (bench.Measurer, error) {
			return nat64.Open(ctx, nat64.Options{Weft: self, Seconds: seconds})
		})
	}
	return c
}

func benchReport() *cobra.Command {
	return &cobra.Command{
		Use: "report", Short: "Print a result in JSON, from standard input, as a table with the bars it meets", Args: cobra.NoArgs,
		Long:    "Read what a weft bench has printed with --json, and print it as a table, with\nthe bars it meets.",
		Example: "  weft bench report < docs/benchmarks/nat64.json",
		RunE: func(c *cobra.Command, args []string) error {
			results, manifest, err := bench.ReadJSON(c.InOrStdin())
			if err != nil {
				return err
			}
			for _, b := range []bench.Bench{
				nat64.Bench(bench.DefaultSeconds), stateful.Bench(bench.DefaultSeconds), lookup.Bench(), sim.Bench(),
				lns.Bench(bench.DefaultSeconds), pseudowire.Bench(bench.DefaultSeconds), offload.Bench(offload.DefaultSeconds),
			} {
				if b.Name == manifest.Bench {
					return b.WriteTable(c.OutOrStdout(), results, manifest)
				}
			}
			return fmt.Errorf("no bench is called %q: this is the result of another version of weft", manifest.Bench)
		},
	}
}

func benchChart() *cobra.Command {
	return &cobra.Command{
		Use: "chart", Short: "Draw a result in JSON, from standard input, as an SVG picture", Args: cobra.NoArgs,
		Long:    "Read what a weft bench has printed with --json, and draw its medians as bars,\nwith the range from the smallest to the largest.",
		Example: "  weft bench chart < docs/benchmarks/nat64.json > docs/benchmarks/nat64.svg",
		RunE: func(c *cobra.Command, args []string) error {
			results, manifest, err := bench.ReadJSON(c.InOrStdin())
			if err != nil {
				return err
			}
			return bench.Chart(c.OutOrStdout(), results, manifest)
		},
	}
}
