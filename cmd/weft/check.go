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
	var asJSON, schema, fileOnly bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report all errors of FILE",
		Long: `Read the configuration and report every problem at once: its position, the
error, the remedy. Nothing is changed, and root is not needed. "-" is standard
input; without FILE it is /etc/weft/weft.toml. The files that it names, of users
and of block lists, are checked too, if they are readable; an invalid line of a
block list is only a warning: the valid lines still apply.

The file is also held against this host: its devices, addresses, networks,
gateways and routes. What weft run would refuse is an error for root, and a
warning for other users, who may check a file for another machine. So may root
with --file-only. As root, the command also reports what [offload] cannot
offload here: interfaces, and nftables rules that look at each packet.

--schema prints the JSON Schema of weft.toml, for editors.`,
		Example: "  weft check weft.toml\n  weft check --schema > weft.schema.json",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := cmd.OutOrStdout().Write(config.Schema(features.Sections()))
				return err
			}
			f, problems, err := daemon.Load(fileOf(args))
			if err != nil {
				return err
			}
			problems = append(problems, features.Check(f)...)
			if !state.HasErrors(problems) && !fileOnly {
				more, err := daemon.CheckHost(cmd.Context(), f, os.Geteuid() == 0)
				if err != nil {
					return err
				}
				problems = append(problems, more...)
			}
			problems = state.Distinct(problems)
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
				fmt.Fprintf(cmd.OutOrStdout(), "%s: OK\n", fileOf(args))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as a JSON array")
	c.Flags().BoolVar(&fileOnly, "file-only", false, "check the file alone, not against this host")
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of weft.toml")
	return c
}

func planCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show what weft run FILE would change on this host",
		Long: `Compare the desired state of the configuration with the actual state of the
kernel, and print the steps that weft run would take, in order. Nothing is
changed. After weft run has applied a file, its plan is empty. The result of a
step may be a fact for a later round, so weft run may take a few more steps
than are listed here. Without FILE it is /etc/weft/weft.toml.`,
		Example: "  weft plan weft.toml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft plan"); err != nil {
				return err
			}
			f, problems, err := daemon.Load(fileOf(args))
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
		Short: "Remove everything of weft from the kernel",
		Long: `Remove the programs, maps, devices, routes and addresses that weft has created
in this network namespace, and restore the settings that it has changed. The
state of other programs stays. A running daemon would create everything again:
stop it first.`,
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
		fmt.Fprintln(w, "nothing to do: the kernel is as the file requires")
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
