package study

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Print writes a table: a line a metric, a column a case, and from the second
// on how it differs from the first, where that is not chance.
func Print(out io.Writer, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, c := range rows[0].Cells {
		fmt.Fprintf(w, "%s\t", c.Case)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s (%s)\t", r.Metric, r.Unit)
		for i, c := range r.Cells {
			fmt.Fprintf(w, "%s%s\t", c.Estimate, change(i, c.Change))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// String returns the mean and the half width of its interval, with the digits
// that make sense.
func (e Estimate) String() string {
	digits := 1
	if scale := max(e.Mean, -e.Mean); scale < 10 {
		digits = 2
	}
	if e.N < 2 {
		return fmt.Sprintf("%.*f", digits, e.Mean)
	}
	return fmt.Sprintf("%.*f ±%.*f", digits, e.Mean, digits, e.Half)
}

// change is empty where the interval of the difference holds 0.
func change(i int, e Estimate) string {
	if i == 0 || e.N < 2 || math.Abs(e.Mean) <= e.Half || math.Abs(e.Mean) < 0.0005 {
		return ""
	}
	return fmt.Sprintf(" (%+.1f%%)", 100*e.Mean)
}

// chartWidth is the length of the longest bar, in characters.
const chartWidth = 50

// Chart draws one metric as bars; the line at a bar's end is its confidence
// interval.
func Chart(out io.Writer, r Row) {
	most, name := 0.0, 0
	for _, c := range r.Cells {
		most = max(most, c.Mean+c.Half)
		name = max(name, len(c.Case))
	}
	if most <= 0 {
		return
	}
	better := "less is better"
	if r.More {
		better = "more is better"
	}
	fmt.Fprintf(out, "%s (%s), %s\n", r.Metric, r.Unit, better)
	for _, c := range r.Cells {
		low := int(math.Round((c.Mean - c.Half) / most * chartWidth))
		mean := int(math.Round(c.Mean / most * chartWidth))
		high := int(math.Round((c.Mean + c.Half) / most * chartWidth))
		low = max(0, min(low, mean))
		bar := strings.Repeat("█", low) + strings.Repeat("▓", mean-low) + strings.Repeat("─", max(0, high-mean))
		fmt.Fprintf(out, "  %*s %s %s\n", name, c.Case, bar, c.Estimate)
	}
	fmt.Fprintln(out)
}
