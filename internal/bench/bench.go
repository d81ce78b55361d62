// Package bench compares programs: some cases, some subjects, and several rounds in
// which every case is measured once with every subject, so that other load on the
// machine affects all of them alike. Absolute figures depend on the machine; the
// ratios within one run are the result.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Case is something that is measured.
type Case struct {
	Name  string
	About string
	Unit  string
	Less  bool // less is better
}

// Subject is one of those that are compared.
type Subject struct {
	Name  string
	About string
}

// Bar is a requirement for a subject: its median in a case is at least Times the
// median of another, or, if Of is empty, at least Times the case's unit (at most,
// where less is better).
type Bar struct {
	Case, Subject string
	Times         float64
	Of            string
}

// Limit is an absolute limit of a subject's median in a case. Zero is no limit.
type Limit struct {
	Case, Subject   string
	AtLeast, AtMost float64
}

// Measurer measures a subject in a case, once. It prepares what it needs at the
// first call.
type Measurer interface {
	Measure(ctx context.Context, c, subject string) (float64, error)
	Close(ctx context.Context) error
}

// Bench is a set of cases and subjects.
type Bench struct {
	Name     string
	Title    string
	Cases    []Case
	Subjects []Subject
	Fits     func(c, subject string) bool // nil: every subject is in every case
	Bars     []Bar
	Limits   []Limit
	Rounds   int               // by default
	Packages []string          // Debian packages whose versions matter
	Settings map[string]string // what else was chosen, for the manifest
}

// Options of a run. Empty lists stand for all.
type Options struct {
	Rounds   int
	Cases    []string
	Subjects []string
	Seed     uint64               // of the order within a round
	Progress func(Step, int, int) // called before each measurement; may be nil
}

// Step is one measurement.
type Step struct {
	Round   int
	Case    Case
	Subject string
}

// Result has the values of the rounds of one case and subject.
type Result struct {
	Bench   string  `json:"bench"`
	Case    string  `json:"case"`
	Subject string  `json:"subject"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Rounds  int     `json:"rounds"`
}

// Plan returns the measurements of a run in their order: round by round, case by
// case, the subjects of a case shuffled again each time.
func (b Bench) Plan(o Options) ([]Step, error) {
	if err := b.known(o); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	var steps []Step
	for round := range o.Rounds {
		for _, c := range b.Cases {
			if !chosen(o.Cases, c.Name) {
				continue
			}
			first := len(steps)
			for _, s := range b.Subjects {
				if chosen(o.Subjects, s.Name) && (b.Fits == nil || b.Fits(c.Name, s.Name)) {
					steps = append(steps, Step{round + 1, c, s.Name})
				}
			}
			these := steps[first:]
			random.Shuffle(len(these), func(i, j int) { these[i], these[j] = these[j], these[i] })
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("bench %s has no measurement of the subjects chosen in the cases chosen", b.Name)
	}
	return steps, nil
}

func chosen(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// known returns an error for names that the bench does not have.
func (b Bench) known(o Options) error {
	var cases, subjects []string
	for _, c := range b.Cases {
		cases = append(cases, c.Name)
	}
	for _, s := range b.Subjects {
		subjects = append(subjects, s.Name)
	}
	for _, l := range []struct {
		what        string
		given, have []string
	}{{"case", o.Cases, cases}, {"subject", o.Subjects, subjects}} {
		for _, name := range l.given {
			if !slices.Contains(l.have, name) {
				return fmt.Errorf("bench %s has no %s %q: it has %s", b.Name, l.what, name, strings.Join(l.have, ", "))
			}
		}
	}
	if o.Rounds < 1 {
		return fmt.Errorf("bench %s: there must be at least one round", b.Name)
	}
	return nil
}

// Run measures and sums up, in the order of cases and subjects.
func (b Bench) Run(ctx context.Context, m Measurer, o Options) ([]Result, error) {
	steps, err := b.Plan(o)
	if err != nil {
		return nil, err
	}
	type pair struct{ c, subject string }
	samples := map[pair][]float64{}
	for i, s := range steps {
		if o.Progress != nil {
			o.Progress(s, i, len(steps))
		}
		v, err := m.Measure(ctx, s.Case.Name, s.Subject)
		if err != nil {
			return nil, fmt.Errorf("measure %s of %s, round %d: %w", s.Case.Name, s.Subject, s.Round, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		key := pair{s.Case.Name, s.Subject}
		samples[key] = append(samples[key], v)
	}
	var results []Result
	for _, c := range b.Cases {
		for _, s := range b.Subjects {
			values := samples[pair{c.Name, s.Name}]
			if len(values) == 0 {
				continue
			}
			results = append(results, Result{
				b.Name, c.Name, s.Name, c.Unit,
				Median(values), slices.Min(values), slices.Max(values), len(values),
			})
		}
	}
	return results, nil
}

// Median is the middle one of some values, or the mean of the middle two; it
// leaves the values in their order.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Verdict is the result of a bar.
type Verdict struct {
	Bar
	Ratio float64 // of the medians, or the median itself
	Unit  string  // of that
	Met   bool
}

// Judge compares results with the bars that they cover.
func (b Bench) Judge(results []Result) []Verdict {
	cases := map[string]Case{}
	for _, c := range b.Cases {
		cases[c.Name] = c
	}
	medians := map[[2]string]float64{}
	for _, r := range results {
		medians[[2]string{r.Case, r.Subject}] = r.Median
	}
	var verdicts []Verdict
	for _, bar := range b.Bars {
		got, ok := medians[[2]string{bar.Case, bar.Subject}]
		if c := cases[bar.Case]; ok && bar.Of == "" {
			met := got >= bar.Times
			if c.Less {
				met = got <= bar.Times
			}
			verdicts = append(verdicts, Verdict{bar, got, c.Unit, met})
			continue
		}
		of, ok2 := medians[[2]string{bar.Case, bar.Of}]
		if !ok || !ok2 || of == 0 {
			continue
		}
		verdicts = append(verdicts, Verdict{bar, got / of, "", got/of >= bar.Times})
	}
	return verdicts
}

// Holding is the result of a limit.
type Holding struct {
	Limit
	Median float64
	Kept   bool
}

// Hold compares results with the limits that they cover.
func (b Bench) Hold(results []Result) []Holding {
	var out []Holding
	for _, l := range b.Limits {
		for _, r := range results {
			if r.Case == l.Case && r.Subject == l.Subject {
				kept := r.Median >= l.AtLeast && (l.AtMost == 0 || r.Median <= l.AtMost)
				out = append(out, Holding{l, r.Median, kept})
			}
		}
	}
	return out
}
