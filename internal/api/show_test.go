package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/noun"
)

type row struct {
	Login   string `json:"login"`
	Session int    `json:"session"`
}

// counted gives rows from 0 to a number.
type counted int

func rowsNoun(name string) noun.Noun {
	return noun.Of[counted, row]{
		Name: name, From: noun.Daemon, Args: []noun.Arg{{Name: "limit", Kind: noun.Number}, {Name: "note"}},
		Rows: func(_ context.Context, n counted, q *noun.Query) iter.Seq2[row, error] {
			if n < 0 {
				return noun.List[row](nil, errors.New("it is not there"))
			}
			return func(yield func(row, error) bool) {
				for i := range int(n) {
					if limit := q.Number("limit"); limit > 0 && i >= limit || !yield(row{fmt.Sprintf("s%d%s", i, q.Text("note")), i}, nil) {
						return
					}
				}
			}
		},
		Metrics: []noun.Metric[row]{
			noun.NewGauge(strings.ReplaceAll(name, "-", "_"), "How many there are.", []string{"kind"}, func(_ row, put func(float64, ...string)) { put(1, name) }),
		},
	}.Noun()
}

// served is a socket with nouns: one of so many rows, and one that is not there.
func served(t *testing.T, n int) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	sources := map[string]any{"rows": counted(n), "absent": counted(-1)}
	registry := Registry{Nouns: []noun.Noun{rowsNoun("rows"), rowsNoun("absent")}, Source: func(name string) any { return sources[name] }}
	if err := Serve(t.Context(), socket, registry, nil, nil); err != nil {
		t.Fatal(err)
	}
	return socket
}

func TestRowsAreWrittenOneByOneAndReadAsAnArray(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5000} {
		var got []row
		if err := Ask(t.Context(), served(t, n), "rows", nil, &got); err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		if got == nil || len(got) != n || n > 0 && (got[n-1].Login != fmt.Sprintf("s%d", n-1) || got[0].Session != 0) {
			t.Errorf("%d rows became %d", n, len(got))
		}
	}
}

func TestArgumentsReachTheNounHoweverLongTheyAre(t *testing.T) {
	socket := served(t, 9)
	for _, note := range []string{"x", "?&=", strings.Repeat("long ", 100_000)} {
		rows, err := AskRows(t.Context(), socket, rowsNoun("rows"), map[string]string{"limit": "1", "note": note})
		var one strings.Builder
		if err = errors.Join(err, rows.JSON(&one)); err != nil || strings.Count(one.String(), "login") != 1 || len(one.String()) < len(note) {
			t.Errorf("a note of %d bytes: %v", len(note), err)
		}
	}
}

func TestWrongQuestionsToTheSocketSayWhy(t *testing.T) {
	socket := served(t, 1)
	for _, c := range []struct {
		noun string
		args map[string]string
		want string
	}{
		{"absent", nil, "it is not there"},
		{"nothing", nil, `there is no noun "nothing"`},
		{"rows", map[string]string{"limit": "-3"}, "is negative"},
		{"rows", map[string]string{"colour": "red"}, "there is no argument"},
	} {
		var got []row
		if err := Ask(t.Context(), socket, c.noun, c.args, &got); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.noun, c.args, err, c.want)
		}
	}
	var got []row
	if err := Ask(t.Context(), filepath.Join(t.TempDir(), "none"), "rows", nil, &got); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("without a daemon: %v", err)
	}
}

// What a noun measures reaches Prometheus; what the daemon does not run has no metrics.
func TestMetricsOfNouns(t *testing.T) {
	sources := map[string]any{"rows": counted(3), "absent": counted(-1)}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(Registry{Nouns: []noun.Noun{rowsNoun("rows"), rowsNoun("absent")}, Source: func(name string) any { return sources[name] }}))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "rows" || families[0].Metric[0].GetGauge().GetValue() != 3 {
		t.Errorf("%v, %v", families, err)
	}
}
