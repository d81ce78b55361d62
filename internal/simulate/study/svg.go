package study

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"weft/internal/svg"
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
	panelHead  = 30
	labelSpace = 150
	textSpace  = 150
	lineHeight = 20
	plotHeight = 190
	plotGap    = 30
	axisSpace  = 52
)

// colours are distinguishable with any colour vision (M. Okabe, K. Ito, "Color
// Universal Design", 2008); lines differ by their marks, too.
func colour(i int) string {
	return [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"}[i%7]
}

// SVG draws a table as a picture, a panel a metric: dots with their 95%
// confidence intervals, of a sweep as lines over the parameter (sweep nil: a
// comparison).
func SVG(out io.Writer, title string, rows []Row, sweep *Sweep) error {
	runs := 0
	for _, r := range rows {
		for _, c := range r.Cells {
			runs = max(runs, c.N)
		}
	}
	c := &svg.Chart{
		Title: title, Name: title, Note: caption(runs),
		Style: `.panel { font-size: 13px; font-weight: bold }
.axis { stroke: #bbb } .interval { stroke: #222; stroke-width: 1.3; fill: none } .bar { fill: #0072b2; opacity: .25 } .dot { fill: #0072b2 }`,
	}
	height := svg.Head + 4
	if sweep == nil {
		for _, r := range rows {
			height = drawBars(c, r, height)
		}
	} else {
		drawLegend(c, sweep, height)
		height += 16
		for i, r := range rows {
			drawLines(c, r, sweep, (i%2)*(svg.Width/2), height+i/2*(plotHeight+panelHead+plotGap))
		}
		height += (len(rows) + 1) / 2 * (plotHeight + panelHead + plotGap)
	}
	return c.Write(out, height+10)
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

// ends returns the interval of a cell; no metric is below 0.
func (c Cell) ends() (low, high float64) { return max(0, c.Mean-c.Half), c.Mean + c.Half }

// reach returns the largest end of a row's intervals.
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
func drawBars(chart *svg.Chart, r Row, y int) int {
	chart.Text("panel", 0, float64(y+16), "", heading(r))
	y += panelHead
	most := r.reach()
	x := func(v float64) float64 { return labelSpace + v/most*(svg.Width-labelSpace-textSpace) }
	for i, c := range r.Cells {
		low, high := c.ends()
		middle := float64(y) + lineHeight/2.0
		chart.Text("", labelSpace-8, middle+4, "end", c.Case)
		chart.Rect("bar", labelSpace, middle-6, x(c.Mean)-labelSpace, 12)
		drawInterval(chart, x(low), middle, x(high), middle, c)
		chart.Circle("dot", x(c.Mean), middle, 3.5)
		chart.Rich("", x(high)+8, middle+4, "", c.Estimate.String()+svg.Note(change(i, c.Change)))
		y += lineHeight
	}
	return y + 6
}

func drawInterval(chart *svg.Chart, x1, y1, x2, y2 float64, c Cell) {
	if c.N < 2 {
		return
	}
	dx, dy := 0.0, 4.0 // of the marks at its ends
	if x1 == x2 && y1 != y2 {
		dx, dy = 4, 0
	}
	chart.Path("interval", fmt.Sprintf("M%.1f %.1fL%.1f %.1fM%.1f %.1fl%.1f %.1fM%.1f %.1fl%.1f %.1f",
		x1, y1, x2, y2, x1-dx, y1-dy, 2*dx, 2*dy, x2-dx, y2-dy, 2*dx, 2*dy), "")
}

func drawLegend(chart *svg.Chart, s *Sweep, y int) {
	x := 0.0
	for i, name := range s.Schedulers {
		drawMark(chart, i, x+8, float64(y)+2)
		chart.Text("", x+20, float64(y+6), "", name)
		x += 40 + 8*float64(len(name))
	}
}

// drawMark draws the mark of a line: circle, square, triangle, diamond.
func drawMark(chart *svg.Chart, i int, x, y float64) {
	shape := [...]string{"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "m-3.5 -3.5h7v7h-7z", "m0 -4.5l4.5 8h-9z", "m0 -5l5 5l-5 5l-5 -5z"}[i%4]
	chart.Path("", fmt.Sprintf("M%.1f %.1f%s", x, y, shape), fmt.Sprintf("fill=%q", colour(i)))
}

// drawLines draws one metric of a sweep.
func drawLines(chart *svg.Chart, r Row, s *Sweep, left, top int) {
	chart.Text("panel", float64(left), float64(top+18), "", heading(r))
	bottom := float64(top + panelHead + plotHeight - axisSpace + 20)
	height := bottom - float64(top+panelHead)
	width := float64(svg.Width/2 - axisSpace - 20)
	step := niceStep(r.reach())
	most := math.Ceil(r.reach()/step) * step
	y := func(v float64) float64 { return bottom - v/most*height }
	x := func(i int) float64 {
		return float64(left+axisSpace) + (float64(i)+0.5)*width/float64(len(s.Values))
	}
	for v := 0.0; v <= most*1.0001; v += step {
		chart.Path("axis", fmt.Sprintf("M%d %.1fh%.1f", left+axisSpace, y(v), width), "")
		chart.Text("note", float64(left+axisSpace-5), y(v)+4, "end", strconv.FormatFloat(v, 'g', 6, 64))
	}
	for i, v := range s.Values {
		chart.Text("note", x(i), bottom+16, "middle", v)
	}
	chart.Text("note", float64(left+axisSpace)+width/2, bottom+32, "middle", s.Parameter)
	for k := range s.Schedulers {
		// side by side, so that no interval hides another
		shift := (float64(k) - float64(len(s.Schedulers)-1)/2) * 5
		line := ""
		for i := range s.Values {
			c := r.Cells[i*len(s.Schedulers)+k]
			low, high := c.ends()
			drawInterval(chart, x(i)+shift, y(low), x(i)+shift, y(high), c)
			line += fmt.Sprintf("%c%.1f %.1f", "ML"[min(i, 1)], x(i)+shift, y(c.Mean))
		}
		chart.Path("", line, fmt.Sprintf("fill=\"none\" stroke=%q stroke-width=\"1.6\"", colour(k)))
		for i := range s.Values {
			drawMark(chart, k, x(i)+shift, y(r.Cells[i*len(s.Schedulers)+k].Mean))
		}
	}
}

// niceStep returns 1, 2 or 5 times a power of ten that divides a range into three
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
