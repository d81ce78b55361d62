package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/lookup"
	"weft/internal/bench/nat64"
	"weft/internal/bench/rig"
	"weft/internal/bench/sim"
)

func benchCommand() *cobra.Command {
	c := choice(&cobra.Command{
		Use:   "bench WHAT",
		Short: "Measure weft beside its peers",
		Long: `Measure weft beside its peers, all in network namespaces of this machine.
Every round measures every subject in every case once. Absolute figures belong
to the machine; compare only within one run, on a machine that does nothing else.`,
		Example: "  weft bench nat64\n  weft bench fib\n  weft bench nat64 --json | weft bench chart > nat64.svg",
	}, "measurement")
	c.AddCommand(benchNAT64(), benchFIB(), benchSim(), benchReport(), benchChart())
	return c
}

func benchNAT64() *cobra.Command {
	var o bench.Options
	var asJSON bool
	var seconds float64
	c := &cobra.Command{
		Use: "nat64", Short: "The translator beside Tayga, the kernel's forwarding, and XDP forwarding", Args: cobra.NoArgs,
		Example: "  weft bench nat64\n  weft bench nat64 --rounds 1 --case tcp1-6to4 --subject weft-tc --subject tayga\n  weft bench nat64 --json | tee nat64.json | weft bench chart > nat64.svg",
	}
	b := nat64.Bench(nat64.DefaultSeconds)
	c.Flags().IntVar(&o.Rounds, "rounds", b.Rounds, "how many times everything is measured")
	c.Flags().StringSliceVar(&o.Cases, "case", nil, "only this case; may be given again")
	c.Flags().StringSliceVar(&o.Subjects, "subject", nil, "only this subject; may be given again")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the order of the subjects in a round")
	c.Flags().Float64Var(&seconds, "seconds", nat64.DefaultSeconds, "of TCP that count in one measurement; packets take a third of it")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a result, then the manifest")
	c.Long = describeBench(b)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		b := nat64.Bench(seconds)
		if _, err := b.Plan(o); err != nil {
			return err
		}
		if err := rig.Need(nat64.Needs(o.Cases, o.Subjects)...); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		ctx, stop := labContext(c)
		defer stop()
		manifest := b.Describe(o, time.Now())
		progress := newBenchProgress(c)
		o.Progress = progress.show
		results, err := runNAT64(ctx, b, o, nat64.Options{Weft: self, Seconds: seconds})
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

func runNAT64(ctx context.Context, b bench.Bench, o bench.Options, with nat64.Options) ([]bench.Result, error) {
	m, err := nat64.Open(ctx, with)
	if err != nil {
		return nil, err
	}
	results, err := b.Run(ctx, m, o)
	return results, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
}

// describeBench lists what there is to choose from.
func describeBench(b bench.Bench) string {
	text := b.Title + ".\n\nCases:\n"
	for _, c := range b.Cases {
		text += fmt.Sprintf("  %-14s %s (%s)\n", c.Name, c.About, c.Unit)
	}
	text += "\nSubjects:\n"
	for _, s := range b.Subjects {
		text += fmt.Sprintf("  %-17s %s\n", s.Name, s.About)
	}
	return text
}

// benchProgress is a line on standard error that says what is being measured:
// rewritten on a terminal, one a round elsewhere.
type benchProgress struct {
	out      *os.File
	terminal bool
	round    int
}

func newBenchProgress(c *cobra.Command) *benchProgress {
	st, err := os.Stderr.Stat()
	return &benchProgress{out: os.Stderr, terminal: err == nil && st.Mode()&os.ModeCharDevice != 0}
}

func (p *benchProgress) show(s bench.Step, done, of int) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%d of %d: round %d, %s of %s", done+1, of, s.Round, s.Case.Name, s.Subject)
	case s.Round != p.round:
		fmt.Fprintf(p.out, "round %d, %d of %d measured\n", s.Round, done, of)
	}
	p.round = s.Round
}

func (p *benchProgress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func benchReport() *cobra.Command {
	return &cobra.Command{
		Use: "report", Short: "Print a result in JSON, from standard input, as a table with the bars it meets", Args: cobra.NoArgs,
		Long:    "Read what weft bench nat64, fib or sim has printed with --json, and print it as\na table, with the bars it meets.",
		Example: "  weft bench report < docs/benchmarks/nat64.json",
		RunE: func(c *cobra.Command, args []string) error {
			results, manifest, err := bench.ReadJSON(c.InOrStdin())
			if err != nil {
				return err
			}
			for _, b := range []bench.Bench{nat64.Bench(nat64.DefaultSeconds), lookup.Bench(), sim.Bench()} {
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
		Long:    "Read what weft bench nat64, fib or sim has printed with --json, and draw its\nmedians as bars, with the range from the smallest to the largest.",
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
