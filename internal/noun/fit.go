package noun

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// gap is what stands between two columns.
const gap = 2

// fit prints columns, each with its name first, in lines of width characters: long cells are
// wrapped between words, and columns that still do not fit go to a further line of the row,
// indented.
func fit(w io.Writer, columns [][]string, width int) error {
	groups := [][][]string{nil}
	used := 0
	for i, size := range sizes(columns, width) {
		last := len(groups) - 1
		indent := gap * min(last, 1)
		if len(groups[last]) > 0 && used+size > width-indent {
			groups, used, last = append(groups, nil), 0, last+1
		}
		groups[last] = append(groups[last], wrapped(columns[i], size))
		used += size + gap
	}
	for line := range columns[0] {
		for n, group := range groups {
			if _, err := io.WriteString(w, row(group, line, strings.Repeat(" ", gap*min(n, 1)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizes returns the width of each column: that of its longest cell, made smaller down to its
// longest word, the widest columns first, until all fit.
func sizes(columns [][]string, width int) []int {
	size, least := make([]int, len(columns)), make([]int, len(columns))
	need := -gap
	for i, column := range columns {
		for _, cell := range column {
			size[i] = max(size[i], utf8.RuneCountInString(cell))
			for word := range strings.FieldsSeq(cell) {
				least[i] = max(least[i], utf8.RuneCountInString(word))
			}
		}
		need += size[i] + gap
	}
	for ; need > width; need-- {
		widest := -1
		for i := range size {
			if size[i] > least[i] && (widest < 0 || size[i] > size[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		size[widest]--
	}
	return size
}

// wrapped breaks the cells of a column between words, and pads every line but those of
// the table's end.
func wrapped(column []string, width int) []string {
	out := make([]string, len(column))
	for i, cell := range column {
		var lines []string
		line := ""
		for word := range strings.FieldsSeq(cell) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				lines, line = append(lines, line), word
			}
		}
		lines = append(lines, line)
		for j, l := range lines {
			lines[j] = l + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l)))
		}
		out[i] = strings.Join(lines, "\n")
	}
	return out
}

// row puts the cells of one row beside each other.
func row(columns [][]string, line int, indent string) string {
	cells, height := make([][]string, len(columns)), 1
	for i, c := range columns {
		cells[i] = strings.Split(c[line], "\n")
		height = max(height, len(cells[i]))
	}
	var out strings.Builder
	for y := range height {
		text := indent
		for i, c := range cells {
			if i > 0 {
				text += strings.Repeat(" ", gap)
			}
			if y < len(c) {
				text += c[y]
			} else {
				text += strings.Repeat(" ", utf8.RuneCountInString(c[0]))
			}
		}
		fmt.Fprintln(&out, strings.TrimRight(text, " "))
	}
	return out.String()
}

// folded breaks the lines of a page that are longer than width between words. What follows is
// indented as the second column of the line, if there is one in its first half.
func folded(page string, width int) string {
	var out strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, " \n")
		indent := 2 * gap
		if begin := len(line) - len(strings.TrimLeft(line, " ")); begin < len(line) {
			if at := strings.Index(line[begin:], "  "); at > 0 {
				second := begin + at + len(line[begin+at:]) - len(strings.TrimLeft(line[begin+at:], " "))
				if second < width/2 {
					indent = second
				}
			}
		}
		for utf8.RuneCountInString(line) > width {
			at := strings.LastIndex(string([]rune(line)[:width+1]), " ")
			if at <= indent {
				break // a single word
			}
			fmt.Fprintln(&out, strings.TrimRight(line[:at], " "))
			line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
		}
		fmt.Fprintln(&out, line)
	}
	return out.String()
}
