package study

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
)

// Sweep says which cell is which: the cases are each value of a parameter with
// each scheduler, the schedulers of a value side by side.
type Sweep struct {
	Parameter  string
	Values     []string
	Schedulers []string
}

// Measures of the pictures, in pixels.
const (
	svgWidth   = 760
	svgHead    = 62
	panelHead  = 30
	labelSpace = 150
	textSpace  = 150
	lineHeight = 20
	plotHeight = 190
	plotGap    = 30
	axisSpace  = 52
)

// colours can be told apart with any colour vision (M. Okabe, K. Ito, "Color
// Universal Design", 2008); lines differ by their marks, too.
func colour(i int) string {
	return [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"}[i%7]
}

// SVG draws a table as a picture, a panel a metric: dots with their 95%
// confidence intervals, of a sweep as lines over the parameter (sweep nil: a
// comparison).
func SVG(out io.Writer, title string, rows []Row, sweep *Sweep) error {
	var body strings.Builder
	height := svgHead
	if sweep == nil {
		for _, r := range rows {
			height = drawBars(&body, r, height)
		}
	} else {
		drawLegend(&body, sweep, height)
		height += 16
		for i, r := range rows {
			drawLines(&body, r, sweep, (i%2)*(svgWidth/2), height+i/2*(plotHeight+panelHead+plotGap))
		}
		height += (len(rows) + 1) / 2 * (plotHeight + panelHead + plotGap)
	}
	runs := 0
	for _, r := range rows {
		for _, c := range r.Cells {
			runs = max(runs, c.N)
		}
	}
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="12">
<title>%[3]s</title>
<style>
.head { font-size: 17px; font-weight: bold } .panel { font-size: 13px; font-weight: bold } .note { fill: #555 }
.axis { stroke: #bbb } .interval { stroke: #222; stroke-width: 1.3; fill: none } .bar { fill: #0072b2; opacity: .25 } .dot { fill: #0072b2 }
</style>
<rect x="-10" width="%[1]d" height="%[2]d" fill="white"/>
<text class="head" x="0" y="26">%[3]s</text>
<text class="note" x="0" y="46">%[4]s</text>
%[5]s</svg>
`, svgWidth+20, height+10, html.EscapeString(title), html.EscapeString(caption(runs)), body.String())
	return err
}

func caption(runs int) string {
	if runs < 2 {
		return "one run, so no confidence intervals"
	}
	return fmt.Sprintf("means of %d runs with the same arrivals; whiskers are 95%% confidence intervals", runs)
}

func heading(r Row) string {
	if r.More {
		return fmt.Sprintf("%s, %s (more is better)", r.Metric, r.Unit)
	}
	return fmt.Sprintf("%s, %s", r.Metric, r.Unit)
}

// ends gives the interval of a cell; no metric is below 0.
func (c Cell) ends() (low, high float64) { return max(0, c.Mean-c.Half), c.Mean + c.Half }

// reach gives the largest end of a row's intervals.
func (r Row) reach() float64 {
	most := 0.0
	for _, c := range r.Cells {
		_, high := c.ends()
		most = max(most, high)
	}
	if most == 0 {
		return 1
	}
	return most
}

// drawBars draws one metric of a comparison from y down, and gives where it ends.
func drawBars(body *strings.Builder, r Row, y int) int {
	fmt.Fprintf(body, "<text class=\"panel\" x=\"0\" y=\"%d\">%s</text>\n", y+16, html.EscapeString(heading(r)))
	y += panelHead
	most := r.reach()
	x := func(v float64) float64 { return labelSpace + v/most*(svgWidth-labelSpace-textSpace) }
	for i, c := range r.Cells {
		low, high := c.ends()
		middle := float64(y) + lineHeight/2.0
		fmt.Fprintf(body, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, labelSpace-8, middle+4, html.EscapeString(c.Case))
		fmt.Fprintf(body, `<rect class="bar" x="%d" y="%.1f" width="%.1f" height="12"/>`, labelSpace, middle-6, x(c.Mean)-labelSpace)
		drawInterval(body, x(low), middle, x(high), middle, c)
		fmt.Fprintf(body, `<circle class="dot" cx="%.1f" cy="%.1f" r="3.5"/>`, x(c.Mean), middle)
		fmt.Fprintf(body, "<text x=\"%.1f\" y=\"%.1f\">%s<tspan class=\"note\">%s</tspan></text>\n", x(high)+8, middle+4, c.Estimate, change(i, c.Change))
		y += lineHeight
	}
	return y + 6
}

func drawInterval(body *strings.Builder, x1, y1, x2, y2 float64, c Cell) {
	if c.N < 2 {
		return
	}
	dx, dy := 0.0, 4.0 // of the marks at its ends
	if x1 == x2 && y1 != y2 {
		dx, dy = 4, 0
	}
	fmt.Fprintf(body, `<path class="interval" d="M%.1f %.1fL%.1f %.1fM%.1f %.1fl%.1f %.1fM%.1f %.1fl%.1f %.1f"/>`,
		x1, y1, x2, y2, x1-dx, y1-dy, 2*dx, 2*dy, x2-dx, y2-dy, 2*dx, 2*dy)
}

func drawLegend(body *strings.Builder, s *Sweep, y int) {
	x := 0.0
	for i, name := range s.Schedulers {
		drawMark(body, i, x+8, float64(y)+2)
		fmt.Fprintf(body, `<text x="%.0f" y="%d">%s</text>`, x+20, y+6, html.EscapeString(name))
		x += 40 + 8*float64(len(name))
	}
	body.WriteByte('\n')
}

// drawMark draws the mark of a line: circle, square, triangle, diamond.
func drawMark(body *strings.Builder, i int, x, y float64) {
	shape := [...]string{"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "m-3.5 -3.5h7v7h-7z", "m0 -4.5l4.5 8h-9z", "m0 -5l5 5l-5 5l-5 -5z"}[i%4]
	fmt.Fprintf(body, `<path d="M%.1f %.1f%s" fill="%s"/>`, x, y, shape, colour(i))
}

// drawLines draws one metric of a sweep.
func drawLines(body *strings.Builder, r Row, s *Sweep, left, top int) {
	fmt.Fprintf(body, "<text class=\"panel\" x=\"%d\" y=\"%d\">%s</text>\n", left, top+18, html.EscapeString(heading(r)))
	bottom := float64(top + panelHead + plotHeight - axisSpace + 20)
	height := bottom - float64(top+panelHead)
	width := float64(svgWidth/2 - axisSpace - 20)
	step := niceStep(r.reach())
	most := math.Ceil(r.reach()/step) * step
	y := func(v float64) float64 { return bottom - v/most*height }
	x := func(i int) float64 {
		return float64(left+axisSpace) + (float64(i)+0.5)*width/float64(len(s.Values))
	}
	for v := 0.0; v <= most*1.0001; v += step {
		fmt.Fprintf(body, `<path class="axis" d="M%d %.1fh%.1f"/><text class="note" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left+axisSpace, y(v), width, left+axisSpace-5, y(v)+4, strconv.FormatFloat(v, 'g', 6, 64))
	}
	for i, v := range s.Values {
		fmt.Fprintf(body, `<text class="note" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x(i), bottom+16, html.EscapeString(v))
	}
	fmt.Fprintf(body, `<text class="note" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", float64(left+axisSpace)+width/2, bottom+32, html.EscapeString(s.Parameter))
	for k := range s.Schedulers {
		// side by side, so that no interval hides another
		shift := (float64(k) - float64(len(s.Schedulers)-1)/2) * 5
		line := ""
		for i := range s.Values {
			c := r.Cells[i*len(s.Schedulers)+k]
			low, high := c.ends()
			drawInterval(body, x(i)+shift, y(low), x(i)+shift, y(high), c)
			line += fmt.Sprintf("%c%.1f %.1f", "ML"[min(i, 1)], x(i)+shift, y(c.Mean))
		}
		fmt.Fprintf(body, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"/>`, line, colour(k))
		for i := range s.Values {
			drawMark(body, k, x(i)+shift, y(r.Cells[i*len(s.Schedulers)+k].Mean))
		}
		body.WriteByte('\n')
	}
}

// niceStep gives 1, 2 or 5 times a power of ten that divides a range into three
// to eight parts.
func niceStep(most float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(most/3)))
	for _, n := range []float64{5, 2} {
		if n*power <= most/3 {
			return n * power
		}
	}
	return power
}
