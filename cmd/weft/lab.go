package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/lab"
	"weft/internal/lab/netspace"
)

// errChecksFailed ends the program with status 1 when the report has said why.
var errChecksFailed = errors.New("checks failed")

func labCommand() *cobra.Command {
	c := choice(&cobra.Command{
		Use:   "lab",
		Short: "Build small networks from namespaces and test them",
		Long: `A lab is a small network on this machine: nodes that are network namespaces or
guests, the links between them, and checks. Scenarios are part of the program
(weft lab list) or TOML files. A lab needs root and leaves nothing behind. It
changes neither the network of this machine nor other labs.`,
		Example: `  weft lab list                          list the scenarios and the running labs
  weft lab run nat64                     build it, check it, remove it
  weft lab up nat64                      build it and leave it running
  weft lab shell nat64/router            open a shell in a node
  weft lab down nat64                    remove it`,
	}, "command")
	c.AddCommand(labList(), labUp(), labDown(), labShell(), labRun())
	return c
}

func labList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the scenarios, and the labs that are up", Args: cobra.NoArgs,
		Long: "Show the scenarios that are part of the program, and the labs that are up on\nthis machine or have left remains.",
		RunE: func(c *cobra.Command, args []string) error {
			out := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			sources, err := lab.Embedded()
			if err != nil {
				return err
			}
			fmt.Fprintln(out, "SCENARIO\tSHOWS")
			for _, src := range sources {
				s, err := lab.Parse(src)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "%s\t%s\n", src.Name, s.Title)
			}
			running, err := lab.Running()
			if err != nil {
				return err
			}
			if len(running) > 0 {
				fmt.Fprintln(out, "\nLAB\tSCENARIO\tSINCE")
			}
			for _, r := range running {
				since := "remains only: weft lab down " + r.Name
				if !r.Started.IsZero() {
					since = r.Started.Format(time.DateTime)
				}
				fmt.Fprintf(out, "%s\t%s\t%s\n", r.Name, r.Scenario, since)
			}
			return out.Flush()
		},
	}
}

func scenarioArgument() cobra.PositionalArgs {
	return oneArgument("one scenario or a file that ends in .toml", "weft lab list shows the scenarios")
}

// labOptions reads the scenario that a command names.
func labOptions(scenario, name string) (lab.Options, error) {
	src, err := lab.Find(scenario)
	if err != nil {
		return lab.Options{}, err
	}
	s, err := lab.Parse(src)
	if err != nil {
		return lab.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find own program: %w", err)
	}
	if name == "" {
		name = src.Name
	}
	o := lab.Options{Name: name, Scenario: s, Source: src, Weft: self, Started: time.Now()}
	return o, lab.Possible(o)
}

// labContext ends at the signals that would otherwise end the program with the
// lab still up: an interrupt, a hang-up, a reader of the output gone away.
func labContext(c *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

func labUp() *cobra.Command {
	var name string
	c := &cobra.Command{Use: "up SCENARIO|FILE", Short: "Build a lab and leave it running",
		Long: `Build the nodes and links of a scenario and start its processes, without
running its checks. The lab stays until weft lab down, or a reboot.`,
		Example: "  weft lab up nat64\n  weft lab up ./my-network.toml --name try",
		Args:    scenarioArgument()}
	c.Flags().StringVar(&name, "name", "", "name of the lab (default: the scenario's)")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := labContext(c)
		defer stop()
		o, err := labOptions(args[0], name)
		if err != nil {
			return err
		}
		report := newTranscript(c.OutOrStdout(), c.ErrOrStderr())
		report.Begin(o.Scenario, o.Name)
		o.Progress = report.Step
		l, err := lab.Up(ctx, o)
		report.Slow.Now("")
		if err != nil {
			return err
		}
		defer l.Close()
		fmt.Fprintf(c.OutOrStdout(), "  The lab is up. Go in:        weft lab shell %s/%s\n  Take it down:  weft lab down %s\n\n", o.Name, o.Scenario.Nodes[0].Name, o.Name)
		return nil
	}
	return c
}

func labDown() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "down NAME | --all", Short: "Remove a lab, or the remains of one",
		Long: `End every process of the lab and remove its namespaces, links and files. It
needs no record, so it also removes the remains of a killed weft.`,
		Example: "  weft lab down nat64\n  weft lab down --all"}
	c.Flags().BoolVar(&all, "all", false, "every lab, and remains of labs, on this machine")
	c.Args = func(c *cobra.Command, args []string) error {
		if all == (len(args) == 1) || len(args) > 1 {
			return errors.New("lab down needs the name of one lab, or --all")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if os.Geteuid() != 0 {
			return errors.New("taking a lab down needs root (try sudo)")
		}
		ctx := context.WithoutCancel(c.Context())
		if all {
			names, err := lab.DownAll(ctx)
			for _, n := range names {
				fmt.Fprintln(c.OutOrStdout(), n)
			}
			return err
		}
		there, err := lab.Exists(args[0])
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("no lab is called %s (weft lab list shows them)", args[0])
		}
		return lab.Down(ctx, args[0])
	}
	return c
}

func labRun() *cobra.Command {
	var name string
	var asJSON, keep bool
	c := &cobra.Command{Use: "run SCENARIO|FILE", Short: "Build a lab, run its checks, remove it",
		Long: `Build a lab, run its checks one after the other, report each result, and remove
the lab, also after Ctrl-C. The exit status is 1 if a check failed.`,
		Example: "  weft lab run nat64\n  weft lab run nat64 --keep      then use weft lab shell\n  weft lab run chain --json",
		Args:    scenarioArgument()}
	c.Flags().StringVar(&name, "name", "", "name of the lab (default: the scenario's)")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object per check, then a summary")
	c.Flags().BoolVar(&keep, "keep", false, "leave the lab running afterwards")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := labContext(c)
		defer stop()
		o, err := labOptions(args[0], name)
		if err != nil {
			return err
		}
		transcript := newTranscript(c.OutOrStdout(), c.ErrOrStderr())
		var report lab.Report = transcript
		if asJSON {
			report = lab.JSON{Out: c.OutOrStdout()}
		}
		sum, err := lab.Run(ctx, o, report)
		transcript.Slow.Now("")
		if errors.Is(err, lab.ErrRunning) || keep && ctx.Err() == nil {
			return failed(err, sum.OK)
		}
		if down := lab.Down(context.WithoutCancel(ctx), o.Name); down != nil {
			return errors.Join(err, down)
		}
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
			return fmt.Errorf("%w; the lab is taken down", err)
		}
		return failed(err, sum.OK)
	}
	return c
}

// failed is the error that a run ends with.
func failed(err error, ok bool) error {
	if err == nil && !ok {
		return errChecksFailed
	}
	return err
}

func labShell() *cobra.Command {
	return &cobra.Command{
		Use: "shell [LAB/]NODE [-- COMMAND ...]", Short: "Open a shell in a node, or run a command there",
		Long: `Enter a node of a running lab. NODE alone is enough if one lab is running. In
the node, weft is on the PATH.`,
		Example: "  weft lab shell nat64/router\n  weft lab shell nat64/router -- weft show counters\n  weft lab shell nat64/member -- ping -c 3 64:ff9b:1::198.51.100.9",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("weft lab shell takes a node, like weft lab shell nat64/router (weft lab list shows the labs)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if os.Geteuid() != 0 {
				return errors.New("entering a node needs root (try sudo)")
			}
			node, err := lab.FindNode(args[0])
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find own program: %w", err)
			}
			program, err := lab.Shell(node, args[1:], self, os.Environ())
			if err != nil {
				return err
			}
			space, err := netspace.Open(node.Space)
			if err != nil {
				return err
			}
			// The process itself goes in and becomes the shell: the terminal,
			// job control and the exit status stay what they are.
			return space.Do(func() error {
				err := syscall.Exec(program.Path, program.Args, program.Env)
				return fmt.Errorf("run %s in %s: %w", program.Path, args[0], err)
			})
		},
	}
}

func newTranscript(out, errors io.Writer) *lab.Transcript {
	colour := false
	if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		st, err := f.Stat()
		colour = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return &lab.Transcript{Out: out, Colour: colour, Slow: &lab.Progress{Out: errors}}
}
