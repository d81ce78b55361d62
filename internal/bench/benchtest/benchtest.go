// Package benchtest compares the published pages of a bench with the result they
// were made from.
package benchtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
	"weft/internal/testbin"
)

// pages is where results are published, from the packages of benches.
const pages = "../../../docs/benchmarks"

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pages, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Published fails unless the table and the chart of b are those of its published
// result, and that has that many figures of a known commit.
func Published(t *testing.T, b bench.Bench, figures int) {
	t.Helper()
	results, manifest, err := bench.ReadJSON(bytes.NewReader(read(t, b.Name+".json")))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != figures || manifest.Bench != b.Name || manifest.Commit == "" {
		t.Errorf("%d results of bench %q at commit %q, want %d of a commit that is known", len(results), manifest.Bench, manifest.Commit, figures)
	}
	var table, chart bytes.Buffer
	if err := b.WriteTable(&table, results, manifest); err != nil {
		t.Fatal(err)
	}
	if err := bench.Chart(&chart, results, manifest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table.Bytes(), read(t, b.Name+".txt")) {
		t.Errorf("%[1]s.txt is not what weft bench report makes of %[1]s.json", b.Name)
	}
	if !bytes.Equal(chart.Bytes(), read(t, b.Name+".svg")) {
		t.Errorf("%[1]s.svg is not what weft bench chart makes of %[1]s.json", b.Name)
	}
}

// Has reports whether a case is in b's published result.
func Has(t *testing.T, b bench.Bench, c string) bool {
	t.Helper()
	results, _, err := bench.ReadJSON(bytes.NewReader(read(t, b.Name+".json")))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(results, func(r bench.Result) bool { return r.Case == c })
}

// All is the number of figures if everything is measured.
func All(t *testing.T, b bench.Bench) int {
	t.Helper()
	plan, err := b.Plan(bench.Options{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	return len(plan)
}

// Page fails unless the page of b names every case and every subject, and has a row
// for each of its bars and limits, and no other.
func Page(t *testing.T, b bench.Bench) {
	t.Helper()
	page := string(read(t, b.Name+".md"))
	for _, c := range b.Cases {
		if !strings.Contains(page, "`"+c.Name+"`") {
			t.Errorf("the page says nothing of case %s", c.Name)
		}
	}
	for _, s := range b.Subjects {
		if !strings.Contains(page, "| `"+s.Name+"` |") {
			t.Errorf("the page says nothing of subject %s", s.Name)
		}
	}
	_, section, found := strings.Cut(page, "\n## What weft is held to\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the page has no section that says what weft is held to")
	}
	rows := strings.Count(section, "\n| `")
	for _, row := range rowsOf(b) {
		if !strings.Contains(section, "\n"+row+"\n") {
			t.Errorf("the page has no row\n%s", row)
		}
		rows--
	}
	if rows != 0 {
		t.Errorf("the page has %d rows more than there are bars", rows)
	}
}

func rowsOf(b bench.Bench) (rows []string) {
	units, less := map[string]string{}, map[string]bool{}
	for _, c := range b.Cases {
		units[c.Name], less[c.Name] = c.Unit, c.Less
	}
	for _, bar := range b.Bars {
		at := "at least " + bench.Figure(bar.Times)
		if less[bar.Case] && bar.Of == "" {
			at = "at most " + bench.Figure(bar.Times)
		}
		of := units[bar.Case]
		if bar.Of != "" {
			of = "of `" + bar.Of + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s %s |", bar.Case, bar.Subject, at, of))
	}
	for _, l := range b.Limits {
		at := "at most " + bench.Figure(l.AtMost)
		if l.AtMost == 0 {
			at = "at least " + bench.Figure(l.AtLeast)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s %s |", l.Case, l.Subject, at, units[l.Case]))
	}
	return rows
}

// Weft builds the program that benches start, for a test that measures; the other
// programs it needs must be installed.
func Weft(t *testing.T, needs ...rig.Program) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("benches need root")
	}
	if err := rig.Need(needs...); err != nil {
		t.Fatal(err)
	}
	return testbin.Weft(t)
}

// Once measures once. It fails unless all figures exist, each above zero (those of
// "CASE SUBJECT" in mayBeZero: not below), and m leaves nothing behind.
func Once(t *testing.T, b bench.Bench, m bench.Measurer, o bench.Options, mayBeZero ...string) {
	t.Helper()
	o.Rounds = 1
	steps, err := b.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	results, err := b.Run(t.Context(), m, o)
	if err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err == nil && len(results) != len(steps) {
		t.Errorf("%d results, want %d", len(results), len(steps))
	}
	for _, r := range results {
		if r.Median < 0 || r.Median == 0 && !slices.Contains(mayBeZero, r.Case+" "+r.Subject) {
			t.Errorf("%s of %s is %v %s", r.Case, r.Subject, r.Median, r.Unit)
		}
	}
	if left, err := netspace.List(fmt.Sprintf("bench-%d-", os.Getpid())); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
