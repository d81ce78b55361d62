package noun

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Long addresses, long names and long reasons leave no line over the width, and no cell out.
func TestLongTablesFitIntoTheirWidth(t *testing.T) {
	const address = "[2001:db8:1234:5678:9abc:def0:1234:5678%enx012345678901]:65535"
	columns := [][]string{
		{"DEVICE", "enx012345678901", "lan"},
		{"FROM", address, "[::1]:1"},
		{"TO", address, "[::1]:2"},
		{"WHY", "the neighbour is not known, and the next hop of its route does not answer either", "-"},
		{"REMEDY", "see ip neigh", "none"},
	}
	for _, width := range []int{80, 100, 132} {
		var out bytes.Buffer
		if err := fit(&out, columns, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line has %d characters: %s", width, n, line)
			}
		}
		for _, column := range columns {
			for _, cell := range column {
				for word := range strings.FieldsSeq(cell) {
					if !strings.Contains(out.String(), word) {
						t.Errorf("width %d: %q is missing in\n%s", width, word, &out)
					}
				}
			}
		}
	}
}

func TestCellsAreWrappedBetweenWords(t *testing.T) {
	columns := [][]string{{"NAME", "wan", "lan"}, {"BECAUSE", "the device is missing", "-"}, {"N", "1", "2"}}
	for width, want := range map[int]string{
		40: "NAME  BECAUSE                N\nwan   the device is missing  1\nlan   -                      2\n",
		22: "NAME  BECAUSE        N\nwan   the device is  1\n      missing\nlan   -              2\n",
		12: "NAME\n  BECAUSE  N\nwan\n  the      1\n  device\n  is\n  missing\nlan\n  -        2\n",
	} {
		var out bytes.Buffer
		if err := fit(&out, columns, width); err != nil || out.String() != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, &out, want)
		}
	}
}

func TestPagesAreFoldedBetweenWords(t *testing.T) {
	for page, want := range map[string]string{
		"short\n":                           "short\n",
		"health  one two three four five\n": "health  one two three\n        four five\n",
		"  reason of all: a b c d e f g\n":  "  reason of all: a b c\n    d e f g\n",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
	} {
		if got := folded(page, 22); got != want {
			t.Errorf("%q: got %q, want %q", page, got, want)
		}
	}
}

func TestManyRowsFit(t *testing.T) {
	columns := [][]string{{"A"}, {"B"}, {"C"}}
	for i := range 50000 {
		columns[0] = append(columns[0], fmt.Sprintf("name-%d", i))
		columns[1] = append(columns[1], strings.Repeat("word ", 8))
		columns[2] = append(columns[2], "2001:db8:1234:5678:9abc:def0:1234:5678")
	}
	var out bytes.Buffer
	if err := fit(&out, columns, 80); err != nil || strings.Count(out.String(), "\n") < 50001 {
		t.Errorf("%d lines, %v", strings.Count(out.String(), "\n"), err)
	}
}

// What is wrong may be several errors, a line each: the row stays a row.
func TestACellOfSeveralLinesStaysInItsRow(t *testing.T) {
	type row struct{ why, remedy string }
	n := Of[struct{}, row]{Name: "x", Columns: []Column[row]{
		{Name: "WHY", Text: func(r row) string { return r.why }}, {Name: "REMEDY", Text: func(r row) string { return r.remedy }},
	}}
	var out bytes.Buffer
	if err := n.table(&out, []row{{"one\ntwo\tthree", "none"}}, 0); err != nil {
		t.Fatal(err)
	}
	if want := "WHY             REMEDY\none; two three  none\n"; out.String() != want {
		t.Errorf("the table is\n%swant\n%s", &out, want)
	}
}
