package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/features"
	"weft/internal/state"
)

func checkCommand() *cobra.Command {
	var asJSON, schema bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with FILE",
		Long: `Read the configuration and report every problem at once: where it is, what is
wrong, what would be right. Nothing is changed, and root is not needed. A
users_file and the files of [block] are looked at too, if they can be read: a
line of those that is wrong is a warning, for it does not keep the others from
being blocked. Where devices of a
[bridge.NAME] are on this host, it also tells of the ways around that bridge
that the host itself has. Root is also told what of [offload] cannot be
offloaded on this host, and why: interfaces, and rules of nftables that look at
each packet.

--schema prints the JSON Schema of weft.toml, for editors.`,
		Example: "  weft check weft.toml\n  weft check --schema > weft.schema.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if schema && len(args) == 0 {
				return nil
			}
			return oneFile(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := cmd.OutOrStdout().Write(config.Schema(features.Sections()))
				return err
			}
			f, problems, err := daemon.Load(args[0])
			if err != nil {
				return err
			}
			problems = append(problems, features.Check(f)...)
			if !state.HasErrors(problems) {
				more, err := daemon.CheckHost(cmd.Context(), f, os.Geteuid() == 0)
				if err != nil {
					return err
				}
				problems = append(problems, more...)
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), emptyNotNull(problems)); err != nil {
					return err
				}
			} else {
				printProblems(os.Stderr, problems)
			}
			if state.HasErrors(problems) {
				return errReported
			}
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is right\n", args[0])
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as a JSON array")
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of weft.toml")
	return c
}

func planCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what weft run FILE would change on this host",
		Long: `Compare what the configuration wants with what the kernel has, and print the
steps that weft run would take, in order. Nothing is changed. After weft run
has applied a file, its plan is empty. What a step makes may be news to a later
one, so weft run may take a few more steps than are listed here.`,
		Example: "  weft plan weft.toml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft plan"); err != nil {
				return err
			}
			f, problems, err := daemon.Load(args[0])
			if err != nil {
				return err
			}
			printProblems(os.Stderr, problems)
			if state.HasErrors(problems) {
				return errReported
			}
			r, err := daemon.Look()
			if err != nil {
				return err
			}
			defer r.Close()
			steps, problems, err := r.Plan(cmd.Context(), f)
			if err != nil {
				return err
			}
			printProblems(os.Stderr, problems)
			if err := printSteps(cmd.OutOrStdout(), steps, asJSON); err != nil {
				return err
			}
			if state.HasErrors(problems) {
				return errReported
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the steps as a JSON array")
	return c
}

func unloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unload",
		Short: "Take everything of weft out of the kernel",
		Long: `Remove the programs, maps, devices, routes and addresses that weft made in
this network namespace, and put back the settings that it changed. What others
made stays. A daemon that still runs would make it all again: stop it first.`,
		Example: "  systemctl stop weft && weft unload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft unload"); err != nil {
				return err
			}
			steps, err := daemon.Unload(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "unloaded: %d steps\n", len(steps))
			return nil
		},
	}
}

func printProblems(w io.Writer, problems []state.Problem) {
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}

func printSteps(w io.Writer, steps []state.Step, asJSON bool) error {
	if asJSON {
		type row struct {
			Op     state.Op `json:"op"`
			Object string   `json:"object"`
			Was    string   `json:"was,omitempty"`
		}
		rows := []row{}
		for _, s := range steps {
			r := row{Op: s.Op, Object: s.Object.String()}
			if s.Was != nil {
				r.Was = s.Was.String()
			}
			rows = append(rows, r)
		}
		return printJSON(w, rows)
	}
	for _, s := range steps {
		fmt.Fprintln(w, s)
	}
	if len(steps) == 0 {
		fmt.Fprintln(w, "nothing to do: the kernel is as the file wants it")
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
