package noun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
)

// A feature declares where its rows come from, what a row is, and the noun. That is all: the
// command, its completion, the answer on the socket and the metrics come from it.
type gates interface {
	Gates() ([]gate, error)
}

type gate struct {
	Name   string `json:"name"`
	Open   bool   `json:"open"`
	Passed uint64 `json:"passed"`
	Note   string `json:"note,omitempty"`
}

func gateNoun() Noun {
	return Of[gates, gate]{
		Name: "gates", Short: "The gates", From: Maps,
		Args: []Arg{
			{Name: "state", Values: []string{"open", "closed"}}, {Name: "limit", Kind: Number}, {Name: "port", Kind: Port}, {Name: "all", Kind: Switch},
			{Name: "name", Column: "gates NAME"},
		},
		Rows: func(_ context.Context, from gates, q *Query) iter.Seq2[gate, error] {
			list, err := from.Gates()
			var rows []gate
			for _, g := range list {
				if q.Text("state") == "" || (q.Text("state") == "open") == g.Open {
					rows = append(rows, g)
				}
			}
			if n := q.Number("limit"); n > 0 && len(rows) > n {
				rows = rows[:n]
			}
			return List(rows, err)
		},
		Columns: []Column[gate]{
			{Name: "NAME", Text: func(g gate) string { return g.Name }},
			{Name: "OPEN", Text: func(g gate) string { return YesNo(g.Open) }},
			{Name: "NOTE", Text: func(g gate) string { return Dash(g.Note) }, Wide: true},
			{Name: "PASSED", Text: func(g gate) string { return fmt.Sprint(g.Passed) }},
		},
		Faulty: func(g gate) bool { return g.Note == "broken" },
		Metrics: []Metric[gate]{
			NewCounter("gate_passed_total", "Who passed.", []string{"gate"}, func(g gate, put func(float64, ...string)) { put(float64(g.Passed), g.Name) }),
			NewGauge("gates", "How many there are.", []string{"state"}, func(g gate, put func(float64, ...string)) {
				put(1, map[bool]string{true: "open", false: "closed"}[g.Open])
			}),
			{Definition: Definition{Name: "gate_busiest"}, Max: true, Of: func(g gate, put func(float64, ...string)) { put(float64(g.Passed)) }},
		},
		Zeroes: func(_ context.Context, _ gates, put Put) { put("gates", 0, "closed") },
	}.Noun()
}

type fixed struct {
	list []gate
	err  error
}

func (f fixed) Gates() ([]gate, error) { return f.list, f.err }

func three() fixed {
	return fixed{list: []gate{{"north", true, 7, ""}, {"south", true, 2, "a long note"}, {Name: "west"}}}
}

func ask(t *testing.T, args map[string]string) *Query {
	t.Helper()
	q, err := NewQuery(gateNoun().Args, args)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestATableFitsTheTerminal(t *testing.T) {
	rows, err := gateNoun().Rows(t.Context(), three(), ask(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	whole := "NAME   OPEN  NOTE         PASSED\nnorth  yes   -            7\nsouth  yes   a long note  2\nwest   no    -            0\n"
	narrow := "NAME   OPEN  PASSED\nnorth  yes   7\nsouth  yes   2\nwest   no    0\n"
	for width, want := range map[int]string{0: whole, 80: whole, 32: whole, 31: narrow, 20: narrow} {
		var out bytes.Buffer
		if err := rows.Table(&out, width); err != nil || out.String() != want {
			t.Errorf("in %d columns (%v):\n%s\nwant\n%s", width, err, &out, want)
		}
	}
	if got := rows.Cells("NOTE"); len(got) != 1 || got[0] != "a long note" {
		t.Errorf("cells of NOTE: %q", got)
	}
}

func TestRowsAreTheSameAsJSONAndBack(t *testing.T) {
	n := gateNoun()
	for _, f := range []fixed{three(), {}} {
		var wire, direct, back bytes.Buffer
		if err := n.Encode(t.Context(), &wire, f, nil); err != nil {
			t.Fatal(err)
		}
		decoded, err := n.Decode(&wire)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := n.Rows(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(rows.JSON(&direct), decoded.JSON(&back)); err != nil || direct.String() != back.String() {
			t.Errorf("%v: %s\nthen\n%s", err, &direct, &back)
		}
		if len(f.list) == 0 && direct.String() != "[]\n" {
			t.Errorf("an empty list is %q", direct.String())
		}
	}
}

func TestAnErrorBeforeTheFirstRowWritesNothing(t *testing.T) {
	var out bytes.Buffer
	if err := gateNoun().Encode(t.Context(), &out, fixed{err: errors.New("closed")}, nil); err == nil || out.Len() > 0 {
		t.Errorf("%v, and %q is written", err, &out)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	args := gateNoun().Args
	for _, c := range []struct{ name, value, want string }{
		{"state", "ajar", `--state "ajar" is none of open and closed`},
		{"limit", "-1", "--limit -1 is negative"},
		{"limit", "many", "is not a number"},
		{"port", "70000", "a port is a number from 1 to 65535"},
		{"all", "perhaps", "is neither true nor false"},
		{"colour", "red", "there is no argument"},
	} {
		if _, err := NewQuery(args, map[string]string{c.name: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	q := ask(t, map[string]string{"state": "open", "limit": "1"})
	rows, err := gateNoun().Rows(t.Context(), three(), q)
	if got := rows.Cells("NAME"); err != nil || len(got) != 1 || got[0] != "north" {
		t.Errorf("one open gate: %q, %v", got, err)
	}
}

func TestMetricsOfRowsAreAddedUp(t *testing.T) {
	got := map[string]float64{}
	put := func(name string, v float64, labels ...string) {
		key := strings.Join(append([]string{name}, labels...), " ")
		if _, twice := got[key]; twice {
			t.Errorf("%s comes twice", key)
		}
		got[key] = v
	}
	if err := gateNoun().Measure(t.Context(), fixed{list: three().list[:2]}, nil, put); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"gate_passed_total north": 7, "gate_passed_total south": 2, "gates open": 2, "gates closed": 0, "gate_busiest": 7}
	if !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

func TestANounIsReadFromWhatItAsksFor(t *testing.T) {
	n := gateNoun()
	if n.Serves(3) || !n.Serves(three()) {
		t.Error("a number has no gates, and what has gates has them")
	}
	if _, err := n.Rows(t.Context(), 3, nil); err == nil {
		t.Error("rows are read from a number")
	}
	rows, err := n.Rows(t.Context(), fixed{list: []gate{{Note: "broken"}}}, nil)
	if err != nil || !rows.Faulty() {
		t.Errorf("a broken gate is no fault (%v)", err)
	}
}
