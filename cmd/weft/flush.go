package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/daemon"
	"weft/internal/feature/nat64"
	"weft/internal/feature/nat64/nat64run"
	"weft/internal/noun"
)

func flushCommand() *cobra.Command {
	c := choice(&cobra.Command{
		Use:   "flush NOUN",
		Short: "End bindings or sessions of stateful translators",
		Long: `End bindings or sessions of stateful translators before their timeout. The
flags that select rows in weft show select what to end; --all ends everything.

Connections break: existing TCP connections stall until they time out; new
connections get a new port. Static bindings of weft.toml stay; only their
sessions end. The command works on the pinned tables and does not need the
daemon.`,
		Example: "  weft flush bib --ipv6 2001:db8:1::7\n  weft flush nat-sessions --protocol udp --port 53\n  weft flush bib --all",
	}, "noun")
	c.AddCommand(
		flushNoun("bib", "End bindings, with all their sessions", "  weft flush bib --ipv6 2001:db8:1::7\n  weft flush bib --ipv4 192.0.2.1 --port 4711", true),
		flushNoun("nat-sessions", "End sessions, and bindings without sessions", "  weft flush nat-sessions --protocol udp --port 53\n  weft flush nat-sessions --all", false),
	)
	return c
}

func flushNoun(name, short, example string, ofBindings bool) *cobra.Command {
	var all, asJSON bool
	values := map[string]*string{}
	c := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Long: short + ".\nAll given flags must match; without any, --all is needed.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := needRoot("weft flush"); err != nil {
				return err
			}
			if picks := len(given(values)) > 0; picks == all {
				return fmt.Errorf("weft flush %s wants either flags that say which, or --all (%s --help lists them)", name, c.CommandPath())
			}
			n, err := flush(given(values), ofBindings)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]int{"sessions_ended": n})
			}
			fmt.Fprintf(c.OutOrStdout(), "%d sessions ended\n", n)
			return nil
		},
	}
	for _, a := range nat64.FilterArgs() {
		values[a.Name] = nounFlag(c, a)
	}
	c.Flags().BoolVar(&all, "all", false, "all of them")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Example = example
	return c
}

func flush(values map[string]string, ofBindings bool) (int, error) {
	r, err := daemon.Look()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if r.Doors().Datapath == nil {
		return 0, errNothing
	}
	q, err := noun.NewQuery(nat64.FilterArgs(), values)
	if err != nil {
		return 0, err
	}
	tables := nat64run.TablesOf(r.Doors().Datapath)
	f, err := nat64.ReadFilter(q, tables)
	if err != nil {
		return 0, err
	}
	if ofBindings {
		return tables.Flush(f.FitsBinding)
	}
	return tables.Flush(f.FitsSession)
}
