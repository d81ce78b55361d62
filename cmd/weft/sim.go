package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
	"weft/internal/simulate/study"
)

func simCommand() *cobra.Command {
	c := choice(&cobra.Command{
		Use:   "sim",
		Short: "Simulate multipath schedulers",
		Long: `Several paths, several streams: which packet goes where? weft sim runs the
schedulers on simulated paths. Scenarios are part of the program (weft sim list)
or TOML files; the same seed gives the same result, bit for bit, on any machine.`,
		Example: `  weft sim run unequal
  weft sim compare chunks --schedulers lowrtt,ecf --runs 20
  weft sim sweep blocking --set path.mobile.delay=20ms,65ms,150ms --schedulers lowrtt,blest
  weft sim watch unequal`,
	}, "action")
	c.AddCommand(simList(), simKeys(), simRun(), simCompare(), simSweep(), simWatch(), simVerify())
	return c
}

func simList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the scenarios that are part of the program", Args: cobra.NoArgs,
		Long:    "Lists the scenarios that are part of the program, by the names that run takes.",
		Example: "  weft sim list",
		RunE: func(c *cobra.Command, args []string) error {
			names, err := scenario.Names()
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "SCENARIO\tSHOWS")
			for _, n := range names {
				s, err := simLoad(n, nil)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "%s\t%s\n", n, s.Spec.General.Title)
			}
			return out.Flush()
		},
	}
}

func simKeys() *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "Show the keys of a scenario", Args: cobra.NoArgs,
		Long:    "Lists the sections and keys of a scenario, their meanings and defaults.",
		Example: "  weft sim keys",
		Run:     func(c *cobra.Command, args []string) { scenario.Keys(c.OutOrStdout()) },
	}
}

func simLoad(name string, set []string) (*scenario.Scenario, error) {
	src, err := scenario.Find(name)
	if err != nil {
		return nil, err
	}
	return scenario.Load(src, set...)
}

func simRun() *cobra.Command {
	var set []string
	var asJSON bool
	var events string
	var keep int
	c := &cobra.Command{
		Use: "run SCENARIO|FILE", Short: "Run a scenario once", Args: cobra.ExactArgs(1),
		Long: `Runs a scenario once and reports the durations of its streams and the load
of its paths.
The same scenario and seed give the same result on any machine.`,
		Example: "  weft sim run unequal\n  weft sim run unequal --set path.slow.delay=100ms --set scenario.scheduler=ecf\n  weft sim run mix --json --events mix.events",
	}
	c.Flags().StringArrayVar(&set, "set", nil, "change a value of the scenario, like path.slow.delay=80ms; may be repeated")
	c.Flags().BoolVar(&asJSON, "json", false, "the result as one JSON object, times in nanoseconds")
	c.Flags().StringVar(&events, "events", "", "write all events to this file, one JSON object per line")
	c.Flags().IntVar(&keep, "streams", 0, "number of streams to report one by one")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		s, err := simLoad(args[0], set)
		if err != nil {
			return err
		}
		if keep < 0 {
			return fmt.Errorf("report %d streams one by one: the number must not be negative", keep)
		}
		s.Setup.Keep = keep
		var record simulate.Recorder
		if events != "" {
			var done func() error
			if record, done, err = eventFile(events); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
		}
		m, err := simulate.New(s.Setup, record)
		if err != nil {
			return err
		}
		r, err := m.Run(c.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(r)
		}
		return study.Report(c.OutOrStdout(), s.Spec.General.Title, s.Setup, r)
	}
	return c
}

// eventFile returns a recorder that writes to a file, and what is to be called at
// the end.
func eventFile(name string) (simulate.Recorder, func() error, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, fmt.Errorf("write events: %w", err)
	}
	out := bufio.NewWriter(f)
	encoder := json.NewEncoder(out)
	var failed error
	record := func(e simulate.Event) {
		if failed == nil {
			failed = encoder.Encode(e)
		}
	}
	return record, func() error { return errors.Join(failed, out.Flush(), f.Close()) }, nil
}

// simStudy are the flags that compare and sweep share.
type simStudy struct {
	schedulers string
	runs       int
	workers    int
	asJSON     bool
	chart      string
	set        []string
}

func (s *simStudy) flags(c *cobra.Command, what string) {
	c.Flags().StringVar(&s.schedulers, "schedulers", "", "schedulers to compare, with commas (default: the scenario's)")
	c.Flags().IntVar(&s.runs, "runs", 10, "runs of each, with different seeds")
	c.Flags().IntVar(&s.workers, "workers", runtime.NumCPU(), "runs at the same time")
	c.Flags().BoolVar(&s.asJSON, "json", false, "the table as JSON")
	c.Flags().StringVar(&s.chart, "chart", "", "draw the table into this file, as SVG")
	c.Flags().StringArrayVar(&s.set, "set", nil, what)
}

// cases returns a case for each scheduler; prefix is put before its name.
func (s *simStudy) cases(name, prefix string, set []string) ([]study.Case, error) {
	base, err := simLoad(name, set)
	if err != nil {
		return nil, err
	}
	schedulers := s.names(base)
	var cases []study.Case
	for _, one := range schedulers {
		setup := base.Setup
		setup.Scheduler = one
		label := prefix + one
		if prefix != "" && len(schedulers) == 1 {
			label = strings.TrimSpace(prefix)
		}
		cases = append(cases, study.Case{Name: label, Setup: setup})
	}
	return cases, nil
}

// names returns the schedulers to compare.
func (s *simStudy) names(base *scenario.Scenario) []string {
	if s.schedulers == "" {
		return []string{base.Setup.Scheduler}
	}
	return strings.Split(s.schedulers, ",")
}

// run carries the study out and prints it; sweep says what the cases of a sweep
// are, nil for a comparison.
func (s *simStudy) run(c *cobra.Command, title string, cases []study.Case, sweep *study.Sweep) (err error) {
	if s.runs < 1 {
		return errors.New("a study needs at least one run: --runs 10")
	}
	var chart *os.File
	if s.chart != "" { // that it cannot be written is better known before than after
		if chart, err = os.Create(s.chart); err != nil {
			return fmt.Errorf("draw chart: %w", err)
		}
		defer func() {
			if err = errors.Join(err, chart.Close()); err != nil {
				err = errors.Join(err, os.Remove(s.chart))
			}
		}()
	}
	bar := newProgressBar(c.ErrOrStderr(), len(cases)*s.runs)
	outcomes, err := study.Run(c.Context(), cases, s.runs, s.workers, bar)
	if err != nil {
		return err
	}
	rows := study.Table(study.Metrics(cases[0].Setup), outcomes)
	if chart != nil {
		if err := study.SVG(chart, title, rows, sweep); err != nil {
			return fmt.Errorf("draw chart: %w", err)
		}
	}
	out := c.OutOrStdout()
	if s.asJSON {
		return json.NewEncoder(out).Encode(rows)
	}
	fmt.Fprintf(out, "%s\n%d runs each; ± is the 95%% confidence interval, in brackets what differs from the first by more than chance\n\n", title, s.runs)
	if err := study.Print(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i := range rows {
		if i < 2 {
			study.Chart(out, rows[i])
		}
	}
	return nil
}

func simCompare() *cobra.Command {
	var s simStudy
	c := &cobra.Command{
		Use: "compare SCENARIO|FILE", Short: "Compare schedulers on the same arrivals", Args: cobra.ExactArgs(1),
		Long: `Runs a scenario with each scheduler and several seeds. All get the same
arrivals, so that differences are computed run by run; those beyond chance are
in brackets.`,
		Example: "  weft sim compare chunks --schedulers lowrtt,ecf --runs 20\n  weft sim compare mix --schedulers turns,shortest --chart mix.svg",
	}
	s.flags(c, "change a value of the scenario, like path.slow.delay=80ms; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		base, err := simLoad(args[0], s.set)
		if err != nil {
			return err
		}
		cases, err := s.cases(args[0], "", s.set)
		if err != nil {
			return err
		}
		return s.run(c, base.Spec.General.Title, cases, nil)
	}
	return c
}

func simSweep() *cobra.Command {
	var s simStudy
	c := &cobra.Command{
		Use: "sweep SCENARIO|FILE --set KEY=VALUE,VALUE,...", Short: "Vary one parameter", Args: cobra.ExactArgs(1),
		Long: `Runs a scenario with each value of one parameter, the --set with commas in its
value; others may set single values.`,
		Example: "  weft sim sweep blocking --set path.mobile.delay=20ms,65ms,150ms --schedulers lowrtt,blest\n  weft sim sweep blocking --set scenario.receive_buffer=64kB,128kB,512kB,4MB --chart buffer.svg",
	}
	s.flags(c, "KEY=VALUE,VALUE,... of the parameter to vary; others with one value; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		key, values, fixed, err := splitSweep(s.set)
		if err != nil {
			return err
		}
		base, err := simLoad(args[0], fixed)
		if err != nil {
			return err
		}
		var all []study.Case
		for _, v := range values {
			cases, err := s.cases(args[0], v+" ", append([]string{key + "=" + v}, fixed...))
			if err != nil {
				return err
			}
			all = append(all, cases...)
		}
		sweep := &study.Sweep{Parameter: key, Values: values, Schedulers: s.names(base)}
		return s.run(c, fmt.Sprintf("%s: %s", base.Spec.General.Title, key), all, sweep)
	}
	return c
}

// splitSweep finds the one assignment that has several values.
func splitSweep(set []string) (key string, values, fixed []string, err error) {
	for _, one := range set {
		k, v, _ := strings.Cut(one, "=")
		if !strings.Contains(v, ",") {
			fixed = append(fixed, one)
			continue
		}
		if key != "" {
			return "", nil, nil, fmt.Errorf("sweep one parameter at a time: %s or %s", key, k)
		}
		key, values = k, strings.Split(v, ",")
	}
	if key == "" {
		return "", nil, nil, errors.New("sweep needs a parameter with several values, like --set path.slow.delay=10ms,50ms,100ms")
	}
	return key, values, fixed, nil
}

// newProgressBar draws on a terminal how many of the runs are done, and what is
// left of the time.
func newProgressBar(w io.Writer, total int) func(int) {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	const width = 40
	begin, last := time.Now(), time.Time{}
	return func(done int) {
		now := time.Now()
		if done < total && now.Sub(last) < 100*time.Millisecond {
			return
		}
		last = now
		left := time.Duration(float64(now.Sub(begin)) / float64(done) * float64(total-done)).Round(time.Second)
		fmt.Fprintf(f, "\r%s%s %d of %d, %s left \033[K", strings.Repeat("█", done*width/total), strings.Repeat("░", width-done*width/total), done, total, left)
		if done == total {
			fmt.Fprint(f, "\r\033[K")
		}
	}
}
