package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/bench/lookup"
)

func benchFIB() *cobra.Command {
	var o bench.Options
	var with lookup.Options
	var asJSON bool
	b := lookup.Bench()
	c := &cobra.Command{
		Use: "fib", Short: "Route lookup in full tables beside the kernel's, the LPM trie and a Go table", Args: cobra.NoArgs,
		Long:    describeBench(b),
		Example: "  weft bench fib\n  weft bench fib --table prefixes.txt.gz --rounds 3 --json | tee fib.json | weft bench chart > fib.svg\n  weft bench fib --subject weft --subject lpm-trie --subject empty-loop",
	}
	c.Flags().IntVar(&o.Rounds, "rounds", b.Rounds, "how many times everything is measured")
	c.Flags().StringSliceVar(&o.Cases, "case", nil, "only this case; may be given again")
	c.Flags().StringSliceVar(&o.Subjects, "subject", nil, "only this subject; may be given again")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of destinations, next hops and the order of the subjects in a round")
	c.Flags().StringVar(&with.Table, "table", "", "file with one prefix a line, may be gzipped; without it the real table beside the checkout, or a made up one")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a result, then the manifest")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft bench"); err != nil {
			return err
		}
		if _, err := b.Plan(o); err != nil {
			return err
		}
		ctx, stop := labContext(c)
		defer stop()
		with.Seed, with.Subjects = o.Seed, o.Subjects
		results, manifest, err := runFIB(ctx, c, b, o, with)
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

func runFIB(ctx context.Context, c *cobra.Command, b bench.Bench, o bench.Options, with lookup.Options) ([]bench.Result, bench.Manifest, error) {
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
	manifest := b.Describe(o, time.Now())
	fmt.Fprintln(c.ErrOrStderr(), "table:", note)
	m, err := lookup.Open(ctx, with, table)
	if err != nil {
		return nil, manifest, err
	}
	results, err := measureFIB(ctx, c, m, b, o)
	return results, manifest, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
}

func measureFIB(ctx context.Context, c *cobra.Command, m *lookup.Measurer, b bench.Bench, o bench.Options) ([]bench.Result, error) {
	n, err := m.Agree()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "all agree on %d addresses, each prefix's boundaries\n", n)
	progress := newBenchProgress(c)
	o.Progress = progress.show
	results, err := b.Run(ctx, m, o)
	progress.end()
	return results, err
}
