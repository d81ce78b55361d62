package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// manifestLine is the last line of a result in JSON.
type manifestLine struct {
	Manifest *Manifest `json:"manifest"`
}

// WriteJSON writes one object a line: the results, then the manifest.
func WriteJSON(w io.Writer, results []Result, m Manifest) error {
	e := json.NewEncoder(w)
	for _, r := range results {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return e.Encode(manifestLine{&m})
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) ([]Result, Manifest, error) {
	var results []Result
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var last manifestLine
		if err := json.Unmarshal(line, &last); err != nil {
			return nil, Manifest{}, fmt.Errorf("read result, line %d: %w", n, err)
		}
		if last.Manifest != nil {
			return results, *last.Manifest, nil
		}
		var result Result
		if err := json.Unmarshal(line, &result); err != nil {
			return nil, Manifest{}, fmt.Errorf("read result, line %d: %w", n, err)
		}
		results = append(results, result)
	}
	if err := lines.Err(); err != nil {
		return nil, Manifest{}, fmt.Errorf("read result: %w", err)
	}
	return nil, Manifest{}, fmt.Errorf("read result: it ends without a manifest")
}

// WriteTable writes results for people: cases with their subjects, then the
// bars that they cover.
func (b Bench) WriteTable(w io.Writer, results []Result, m Manifest) error {
	fmt.Fprintf(w, "%s\nweft %s, Linux %s, %s, %d CPUs; load before: %s\n", b.Title, m.Version, m.Kernel, m.CPU, m.CPUs, m.Load)
	cases := map[string]Case{}
	for _, c := range b.Cases {
		cases[c.Name] = c
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	previous := ""
	for _, r := range results {
		if r.Case != previous {
			if err := t.Flush(); err != nil {
				return err
			}
			unit := r.Unit
			if cases[r.Case].Less {
				unit += ", less is better"
			}
			fmt.Fprintf(w, "\n%s: %s (%s)\n", r.Case, cases[r.Case].About, unit)
			fmt.Fprintln(t, "subject\tmedian\tmin\tmax\trounds\t")
		}
		previous = r.Case
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t\n", r.Subject, Figure(r.Median), Figure(r.Min), Figure(r.Max), r.Rounds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := b.writeBars(w, results); err != nil {
		return err
	}
	return b.writeLimits(w, results)
}

func (b Bench) writeBars(w io.Writer, results []Result) error {
	verdicts := b.Judge(results)
	if len(verdicts) > 0 {
		fmt.Fprintln(w, "\nBars, by the medians:")
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range verdicts {
		met := "met"
		if !v.Met {
			met = "MISSED"
		}
		if v.Of == "" {
			fmt.Fprintf(t, "  %s\t%s\tis %s %s\t\tbar %s\t%s\n", v.Case, v.Subject, Figure(v.Ratio), v.Unit, Figure(v.Times), met)
			continue
		}
		fmt.Fprintf(t, "  %s\t%s\tis %.2f of\t%s\tbar %.2f\t%s\n", v.Case, v.Subject, v.Ratio, v.Of, v.Times, met)
	}
	return t.Flush()
}

func (b Bench) writeLimits(w io.Writer, results []Result) error {
	holdings := b.Hold(results)
	if len(holdings) > 0 {
		fmt.Fprintln(w, "\nLimits, by the medians:")
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, h := range holdings {
		kept := "met"
		if !h.Kept {
			kept = "MISSED"
		}
		limit := "at most " + Figure(h.AtMost)
		if h.AtMost == 0 {
			limit = "at least " + Figure(h.AtLeast)
		}
		fmt.Fprintf(t, "  %s\t%s\tis %s\t%s\t%s\n", h.Case, h.Subject, Figure(h.Median), limit, kept)
	}
	return t.Flush()
}

// Figure writes a value with three digits that count.
func Figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
