package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/lookup"
)

// quickRounds is how many rounds --quick makes of the bench's own number.
const quickRounds = 2

func benchFIB() *cobra.Command {
	var run benchRun
	var with lookup.Options
	b := lookup.Bench()
	c := &cobra.Command{
		Use: "fib", Short: "Route lookup in full tables: weft, the kernel, the LPM trie and a Go table",
		Example: "  weft bench fib\n  weft bench fib --quick\n  weft bench fib --table prefixes.txt.gz --rounds 3 --json | tee fib.json | weft bench chart > fib.svg\n  weft bench fib --subject weft --subject lpm-trie --subject empty-loop",
	}
	run.flags(c, b, "destinations, next hops and ")
	c.Flags().StringVar(&with.Table, "table", "", "file with one prefix per line, may be gzipped (default: the table beside the checkout, or a generated one)")
	c.Flags().BoolVar(&with.Quick, "quick", false, fmt.Sprintf("a tenth of all prefixes and %d rounds: for a test, not for publication", quickRounds))
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		if with.Quick && !c.Flags().Changed("rounds") {
			run.Rounds = quickRounds
		}
		if _, err := b.Plan(run.Options); err != nil {
			return err
		}
		ctx, stop := labContext(c)
		defer stop()
		with.Seed, with.Subjects = run.Seed, run.Subjects
		results, manifest, err := runFIB(ctx, c, b, run, with)
		if err != nil {
			return err
		}
		return run.print(c, b, results, manifest)
	}
	return c
}

func runFIB(ctx context.Context, c *cobra.Command, b bench.Bench, run benchRun, with lookup.Options) ([]bench.Result, bench.Manifest, error) {
	table, note, err := with.Load()
	if err != nil {
		return nil, bench.Manifest{}, err
	}
	b.Settings = map[string]string{
		"table":        note,
		"next hops":    "1000, at random",
		"destinations": "1048576 in random order, each looked up once in a measurement",
		"loop":         "its overhead is in all figures; empty-loop shows it",
	}
	manifest := run.describe(b)
	with.Progress = func(what string) { fmt.Fprintln(c.ErrOrStderr(), what) }
	with.Progress("table: " + note)
	m, err := lookup.Open(ctx, with, table)
	if err != nil {
		return nil, manifest, err
	}
	manifest.Settings["forwarding"] = m.Forwarding()
	with.Progress("comparing all answers on each prefix's boundaries")
	n, err := m.Agree(ctx)
	if err == nil {
		with.Progress(fmt.Sprintf("all agree on %d addresses", n))
	}
	var results []bench.Result
	if err == nil {
		results, err = run.measure(ctx, b, m)
	}
	return results, manifest, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
}
