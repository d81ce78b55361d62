package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// benchRun is what the commands of all benches share: how much is measured,
// and what is printed.
type benchRun struct {
	bench.Options
	json     bool
	progress *benchProgress
}

// flags adds the flags; seeds says what else the seed decides.
func (r *benchRun) flags(c *cobra.Command, b bench.Bench, seeds string) {
	c.Long = describeBench(b)
	c.Args = cobra.NoArgs
	c.Flags().IntVar(&r.Rounds, "rounds", b.Rounds, "number of rounds")
	c.Flags().StringSliceVar(&r.Cases, "case", nil, "only this case; may be given again")
	c.Flags().StringSliceVar(&r.Subjects, "subject", nil, "only this subject; may be given again")
	c.Flags().Uint64Var(&r.Seed, "seed", 1, "of "+seeds+"the order of the subjects in a round")
	c.Flags().BoolVar(&r.json, "json", false, "one JSON object per result, then the manifest")
}

// measure runs the bench and shows what it is at.
func (r *benchRun) measure(ctx context.Context, b bench.Bench, m bench.Measurer) ([]bench.Result, error) {
	r.progress = newBenchProgress()
	defer r.progress.end()
	o := r.Options
	o.Progress = r.progress.show
	return b.Run(ctx, m, o)
}

// note shows what takes long besides measurements.
func (r *benchRun) note(what string) {
	if r.progress != nil {
		r.progress.note(what)
	}
}

// prepare refuses what cannot be measured here before anything is made, and says
// where this very program is.
func (r *benchRun) prepare(b bench.Bench, needs []rig.Program) (self string, err error) {
	if err := needRoot("weft bench"); err != nil {
		return "", err
	}
	if _, err := b.Plan(r.Options); err != nil {
		return "", err
	}
	if err := rig.Need(needs...); err != nil {
		return "", err
	}
	if self, err = os.Executable(); err != nil {
		return "", fmt.Errorf("find own program: %w", err)
	}
	return self, nil
}

// onPaths runs a bench in which this very program stands beside its peers, in
// network namespaces that open makes and the measurer takes away.
func (r *benchRun) onPaths(c *cobra.Command, b bench.Bench, needs []rig.Program, open func(ctx context.Context, self string) (bench.Measurer, error)) error {
	self, err := r.prepare(b, needs)
	if err != nil {
		return err
	}
	ctx, stop := labContext(c)
	defer stop()
	manifest := r.describe(b)
	m, err := open(ctx, self)
	if err != nil {
		return err
	}
	results, err := r.measure(ctx, b, m)
	if err := errors.Join(err, m.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	return r.print(c, b, results, manifest)
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
// rewritten on a terminal; elsewhere one a round, and one every so often.
type benchProgress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	round    int
	at       string // of the measurements
	said     time.Time
}

// progressEvery is how often there is a line where lines stay.
const progressEvery = 10 * time.Second

func newBenchProgress() *benchProgress {
	st, err := os.Stderr.Stat()
	return &benchProgress{out: os.Stderr, terminal: err == nil && st.Mode()&os.ModeCharDevice != 0, now: time.Now}
}

func (p *benchProgress) show(s bench.Step, done, of int) {
	p.at = fmt.Sprintf("%d of %d: round %d, %s of %s", done+1, of, s.Round, s.Case.Name, s.Subject)
	if !p.terminal && s.Round != p.round {
		p.round = s.Round
		p.line(fmt.Sprintf("round %d, %d of %d measured", s.Round, done, of))
		return
	}
	p.say(p.at)
}

// note says what is done for the measurement at hand.
func (p *benchProgress) note(what string) { p.say(p.at + ": " + what) }

func (p *benchProgress) say(text string) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	case p.now().Sub(p.said) >= progressEvery:
		p.line(text)
	}
}

func (p *benchProgress) line(text string) {
	p.said = p.now()
	fmt.Fprintln(p.out, text)
}

func (p *benchProgress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
