package bench

import (
	"fmt"
	"io"
	"strings"

	"weft/internal/svg"
)

// Measures of the chart in pixels.
const (
	labelWidth  = 150
	figureWidth = 150
	barHeight   = 16
	barGap      = 5
	caseGap     = 34
)

// Chart draws results as an SVG picture: a block for each case, a bar for each
// subject's median, a whisker from the smallest to the largest round.
func Chart(w io.Writer, results []Result, m Manifest) error {
	c := svg.Chart{
		Title: "weft bench " + m.Bench, Name: "weft bench " + m.Bench, Note: caption(results, m),
		Style: `.case { font-size: 14px; font-weight: bold }
.weft { fill: #2c7fb8 } .peer { fill: #b0b0b0 } .spread { stroke: #222; stroke-width: 1.2 }`,
	}
	y := svg.Head
	for _, group := range byCase(results) {
		y += caseGap
		c.Text("case", 0, float64(y-12), "", group[0].Case+", "+group[0].Unit)
		y = drawGroup(&c, group, y)
	}
	return c.Write(w, y+10)
}

func caption(results []Result, m Manifest) string {
	rounds := 0
	for _, r := range results {
		rounds = max(rounds, r.Rounds)
	}
	return fmt.Sprintf("median of %d rounds, line from the smallest to the largest; Linux %s, %s, %d CPUs, %s",
		rounds, m.Kernel, m.CPU, m.CPUs, m.Started.Format("2006-01-02"))
}

// byCase puts results of one case together, in the order of their appearance.
func byCase(results []Result) [][]Result {
	var groups [][]Result
	at := map[string]int{}
	for _, r := range results {
		i, ok := at[r.Case]
		if !ok {
			i = len(groups)
			at[r.Case] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// drawGroup draws the bars of one case from y down and gives where they end.
func drawGroup(c *svg.Chart, group []Result, y int) int {
	var largest float64
	for _, r := range group {
		largest = max(largest, r.Max)
	}
	scale := func(v float64) float64 {
		if largest <= 0 {
			return 0
		}
		return v / largest * (svg.Width - labelWidth - figureWidth)
	}
	for _, r := range group {
		class := "peer"
		if strings.HasPrefix(r.Subject, "weft") {
			class = "weft"
		}
		middle := float64(y) + barHeight/2.0
		c.Text("", labelWidth-8, middle+4, "end", r.Subject)
		c.Rect(class, labelWidth, float64(y), scale(r.Median), barHeight)
		c.Path("spread", fmt.Sprintf("M%.1f %.1fH%.1f", labelWidth+scale(r.Min), middle, labelWidth+scale(r.Max)), "")
		c.Rich("", labelWidth+scale(r.Max)+8, middle+4, "", Figure(r.Median)+" "+svg.Note(Figure(r.Min)+" to "+Figure(r.Max)))
		y += barHeight + barGap
	}
	return y
}
