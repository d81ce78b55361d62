package bench

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Measures of the chart in pixels.
const (
	chartWidth  = 760
	labelWidth  = 150
	figureWidth = 150
	barHeight   = 16
	barGap      = 5
	caseGap     = 34
	headHeight  = 58
)

// Chart draws results as an SVG picture: a block for each case, a bar for each
// subject's median, a whisker from the smallest to the largest round.
func Chart(w io.Writer, results []Result, m Manifest) error {
	var body strings.Builder
	y := headHeight
	for _, group := range byCase(results) {
		y += caseGap
		fmt.Fprintf(&body, `<text class="case" x="0" y="%d">%s, %s</text>`+"\n", y-12, html.EscapeString(group[0].Case), html.EscapeString(group[0].Unit))
		y = drawGroup(&body, group, y)
	}
	height := y + 10
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">
<title>weft bench %s</title>
<style>
.head { font-size: 17px; font-weight: bold } .case { font-size: 14px; font-weight: bold } .note { fill: #666 }
.weft { fill: #2c7fb8 } .peer { fill: #b0b0b0 } .spread { stroke: #222; stroke-width: 1.2 }
</style>
<rect x="-10" width="%d" height="%d" fill="white"/>
<text class="head" x="0" y="26">weft bench %s</text>
<text class="note" x="0" y="46">%s</text>
%s</svg>
`, chartWidth+20, height, chartWidth+20, height, html.EscapeString(m.Bench), chartWidth+20, height,
		html.EscapeString(m.Bench), html.EscapeString(caption(results, m)), body.String())
	return err
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
func drawGroup(body *strings.Builder, group []Result, y int) int {
	var largest float64
	for _, r := range group {
		largest = max(largest, r.Max)
	}
	scale := func(v float64) float64 {
		if largest <= 0 {
			return 0
		}
		return v / largest * (chartWidth - labelWidth - figureWidth)
	}
	for _, r := range group {
		class := "peer"
		if strings.HasPrefix(r.Subject, "weft") {
			class = "weft"
		}
		middle := float64(y) + barHeight/2.0
		fmt.Fprintf(body, `<text x="%d" y="%.0f" text-anchor="end">%s</text>`, labelWidth-8, middle+4, html.EscapeString(r.Subject))
		fmt.Fprintf(body, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, class, labelWidth, y, scale(r.Median), barHeight)
		fmt.Fprintf(body, `<path class="spread" d="M%.1f %.1fH%.1f"/>`, labelWidth+scale(r.Min), middle, labelWidth+scale(r.Max))
		fmt.Fprintf(body, `<text x="%.1f" y="%.0f">%s <tspan class="note">%s to %s</tspan></text>`+"\n",
			labelWidth+scale(r.Max)+8, middle+4, Figure(r.Median), Figure(r.Min), Figure(r.Max))
		y += barHeight + barGap
	}
	return y
}
