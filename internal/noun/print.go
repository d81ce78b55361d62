package noun

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// encode writes an array of rows, each as it comes: a million rows at once would take much memory.
func (o Of[S, R]) encode(ctx context.Context, w io.Writer, source any, q *Query) error {
	b := bufio.NewWriter(w)
	encoder, before := json.NewEncoder(b), "["
	if o.One {
		before = ""
	}
	begun := false
	for row, err := range o.each(ctx, source, q) {
		if err != nil {
			return err
		}
		_, _ = b.WriteString(before) // if the reader has gone, Encode says so
		if err := encoder.Encode(row); err != nil {
			return err
		}
		if begun = true; o.One {
			return b.Flush()
		}
		before = ","
	}
	if !begun {
		_, _ = b.WriteString(before)
	}
	_, _ = b.WriteString("]\n")
	return b.Flush()
}

func (o Of[S, R]) decode(r io.Reader) (any, error) {
	if o.One {
		list := make([]R, 1)
		return list, json.NewDecoder(r).Decode(&list[0])
	}
	list := []R{}
	err := json.NewDecoder(r).Decode(&list)
	if list == nil {
		list = []R{}
	}
	return list, err
}

func (o Of[S, R]) json(w io.Writer, rows any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if list := rows.([]R); o.One && len(list) == 1 {
		return e.Encode(list[0])
	}
	return e.Encode(rows)
}

func (o Of[S, R]) table(w io.Writer, rows any, width int) error {
	list := rows.([]R)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	switch {
	case len(list) == 0 && o.None != "":
		fmt.Fprintln(t, o.None)
	case len(list) == 0 && o.Page == nil:
		fmt.Fprintln(t, "none")
	case o.Page != nil && width > 0:
		return o.page(w, list, width)
	case o.Page != nil:
		o.Page(t, list)
	default:
		return o.lines(w, list, width)
	}
	return t.Flush()
}

// page prints a page in lines of width characters.
func (o Of[S, R]) page(w io.Writer, rows []R, width int) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	o.Page(t, rows)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, folded(text.String(), width))
	return err
}

// oneLine keeps a cell in its row: an error may join several, a line each.
var oneLine = strings.NewReplacer("\n", "; ", "\t", " ")

// lines prints the columns: those for wide terminals if there is room, and long cells in
// several lines.
func (o Of[S, R]) lines(w io.Writer, rows []R, width int) error {
	columns := make([][]string, len(o.Columns))
	need := 0
	widest := make([]int, len(columns))
	for i, c := range o.Columns {
		columns[i] = append(make([]string, 0, len(rows)+1), c.Name)
		for _, r := range rows {
			columns[i] = append(columns[i], oneLine.Replace(c.Text(r)))
		}
		for _, cell := range columns[i] {
			widest[i] = max(widest[i], utf8.RuneCountInString(cell))
		}
		need += widest[i] + 2
	}
	var kept [][]string
	for i := len(columns) - 1; i >= 0; i-- {
		if width > 0 && need-2 > width && o.Columns[i].Wide {
			need -= widest[i] + 2
			continue
		}
		kept = append([][]string{columns[i]}, kept...)
	}
	if width > 0 && need-2 > width {
		return fit(w, kept, width)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for line := range len(rows) + 1 {
		cells := make([]string, len(kept))
		for i := range kept {
			cells[i] = kept[i][line]
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}
