package features

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/internal/noun"
	"weft/internal/paths"
	"weft/internal/runner"
)

// Dashboards and alerts name metrics: their names, types, labels and help are those of testdata.
func TestMetricsKeepTheirNames(t *testing.T) {
	text, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	var got []string
	for n := range noun.All(Nouns()) {
		for _, m := range n.Metrics {
			got = append(got, fmt.Sprintf("%s %s {%s} %s", m.Name, map[noun.Type]string{noun.Gauge: "gauge", noun.Counter: "counter"}[m.Type], strings.Join(m.Labels, ","), m.Help))
		}
	}
	slices.Sort(got)
	for _, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("testdata/metrics.txt does not have\n%s", m)
		}
	}
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("no noun measures\n%s", m)
		}
	}
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Error("a metric is declared twice")
	}
}

// Scripts read the JSON of nouns and of the socket: its keys are those of testdata, by
// whatever names Go has them.
func TestJSONKeepsItsKeys(t *testing.T) {
	text, err := os.ReadFile("testdata/json.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	var got []string
	for n := range noun.All(Nouns()) {
		for _, key := range n.JSONKeys() {
			got = append(got, n.Name+" "+key)
		}
	}
	for _, key := range got {
		if !slices.Contains(want, key) {
			t.Errorf("testdata/json.txt does not have\n%s", key)
		}
	}
	for _, key := range want {
		if !slices.Contains(got, key) {
			t.Errorf("no row has\n%s", key)
		}
	}
}

// Each noun has one name, and each that the maps have is read from its feature's tables.
func TestEveryNounHasANameAndASource(t *testing.T) {
	seen := map[string]bool{}
	source := Sources(runner.Doors{}, nil)
	for n := range noun.All(Nouns()) {
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			if name == "" || seen[name] {
				t.Errorf("two nouns are called %q", name)
			}
			seen[name] = true
		}
		if from := source(n.Name); n.From != noun.Daemon && !n.Serves(from) {
			t.Errorf("%s cannot be read from %T", n.Name, from)
		}
		if !n.Hidden && (n.Short == "" || n.Long == "") {
			t.Errorf("%s does not say what it is", n.Name)
		}
	}
}

// What completion offers stands in a column that there is.
func TestCompletionAsksForColumnsThatThereAre(t *testing.T) {
	for n := range noun.All(Nouns()) {
		for _, a := range n.Args {
			if a.Column == "" {
				continue
			}
			name, column, _ := strings.Cut(a.Column, " ")
			if of, there := noun.Find(Nouns(), name); !there || !slices.Contains(of.Columns, column) {
				t.Errorf("%s --%s is completed from %q, which is not there", n.Name, a.Name, a.Column)
			}
		}
	}
}

// What the daemon shows of a feature is read from the feature's runner.
func TestEveryRunnerServesItsNouns(t *testing.T) {
	served := 0
	for _, x := range All() {
		if x.Run == nil {
			continue
		}
		r := x.Run(t.Context(), runner.Doors{Log: slog.New(slog.DiscardHandler), Paths: paths.Dirs{Run: t.TempDir()}, Replan: func() {}})
		for n := range noun.All(x.Nouns) {
			if n.From != noun.Daemon {
				continue
			}
			served++
			if !n.Serves(r) {
				t.Errorf("%s cannot be read from %T", n.Name, r)
			}
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	if served < 6 {
		t.Errorf("%d nouns of the daemon: the test shows little", served)
	}
}
