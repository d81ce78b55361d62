// Package svg writes charts as SVG pictures: the frame that all have, and their shapes.
package svg

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Width is that of all charts, in pixels.
const Width = 760

// Chart is a picture that grows: a title, a line below it, and a body.
type Chart struct {
	Title, Note string
	Name        string // of the document, for screen readers
	Style       string // rules of CSS besides those of all charts
	body        strings.Builder
}

// Head is where the body begins, in pixels from the top.
const Head = 58

// Text writes at x and y, in a class of Style ("" for none) and an anchor of SVG ("" for
// start).
func (c *Chart) Text(class string, x, y float64, anchor, text string) {
	c.Rich(class, x, y, anchor, html.EscapeString(text))
}

// Rich is Text with markup in it.
func (c *Chart) Rich(class string, x, y float64, anchor, markup string) {
	c.body.WriteString("<text" + attribute("class", class) + position(x, y))
	fmt.Fprintf(&c.body, "%s>%s</text>\n", attribute("text-anchor", anchor), markup)
}

// Note is a part of rich text that stands back.
func Note(text string) string { return `<tspan class="note">` + html.EscapeString(text) + "</tspan>" }

// Rect draws a rectangle from its upper left corner.
func (c *Chart) Rect(class string, x, y, width, height float64) {
	fmt.Fprintf(&c.body, "<rect class=\"%s\"%s width=\"%.1f\" height=\"%.1f\"/>\n", class, position(x, y), width, height)
}

// Circle draws one around x and y.
func (c *Chart) Circle(class string, x, y, radius float64) {
	fmt.Fprintf(&c.body, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", class, x, y, radius)
}

// Path draws a path of SVG; paint is what stands beside it, as attributes.
func (c *Chart) Path(class, d, paint string) {
	if paint != "" {
		paint = " " + paint
	}
	fmt.Fprintf(&c.body, "<path%s d=\"%s\"%s/>\n", attribute("class", class), d, paint)
}

// Write writes the picture, height pixels high.
func (c *Chart) Write(w io.Writer, height int) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="12">
<title>%[3]s</title>
<style>
.head { font-size: 17px; font-weight: bold } .note { fill: #555 }
%[4]s
</style>
<rect x="-10" width="%[1]d" height="%[2]d" fill="white"/>
<text class="head" x="0" y="26">%[5]s</text>
<text class="note" x="0" y="46">%[6]s</text>
%[7]s</svg>
`, Width+20, height, html.EscapeString(c.Name), c.Style, html.EscapeString(c.Title), html.EscapeString(c.Note), c.body.String())
	return err
}

func attribute(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" %s=%q", name, value)
}

func position(x, y float64) string { return fmt.Sprintf(" x=\"%.1f\" y=\"%.1f\"", x, y) }
