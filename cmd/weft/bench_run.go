package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/bench"
)

// benchRun is what the commands of all benches share: how much is measured,
// and what is printed.
type benchRun struct {
	bench.Options
	json bool
}

// flags adds the flags; seeds says what else the seed decides.
func (r *benchRun) flags(c *cobra.Command, b bench.Bench, seeds string) {
	c.Long = describeBench(b)
	c.Args = cobra.NoArgs
	c.Flags().IntVar(&r.Rounds, "rounds", b.Rounds, "how many times everything is measured")
	c.Flags().StringSliceVar(&r.Cases, "case", nil, "only this case; may be given again")
	c.Flags().StringSliceVar(&r.Subjects, "subject", nil, "only this subject; may be given again")
	c.Flags().Uint64Var(&r.Seed, "seed", 1, "of "+seeds+"the order of the subjects in a round")
	c.Flags().BoolVar(&r.json, "json", false, "one JSON object a result, then the manifest")
}

// measure runs the bench and shows what it is at.
func (r *benchRun) measure(ctx context.Context, b bench.Bench, m bench.Measurer) ([]bench.Result, error) {
	progress := newBenchProgress()
	defer progress.end()
	o := r.Options
	o.Progress = progress.show
	return b.Run(ctx, m, o)
}

// print writes the results as they were asked for.
func (r *benchRun) print(c *cobra.Command, b bench.Bench, results []bench.Result, manifest bench.Manifest) error {
	if r.json {
		return bench.WriteJSON(c.OutOrStdout(), results, manifest)
	}
	return b.WriteTable(c.OutOrStdout(), results, manifest)
}

// describe starts the manifest.
func (r *benchRun) describe(b bench.Bench) bench.Manifest { return b.Describe(r.Options, time.Now()) }

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

func newBenchProgress() *benchProgress {
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
