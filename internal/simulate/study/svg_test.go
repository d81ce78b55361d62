package study

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"weft/internal/svg"
)

// elements reads a picture as XML, and gives how often each class or element is
// there.
func elements(t *testing.T, text []byte) map[string]int {
	t.Helper()
	n := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			n[e.Name.Local]++
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					n["."+a.Value]++
				}
			}
		}
	}
}

func table(t *testing.T, seeds int, schedulers ...string) []Row {
	t.Helper()
	var cases []Case
	for _, name := range schedulers {
		s := setup()
		s.Scheduler = name
		cases = append(cases, Case{name, s})
	}
	out, err := Run(context.Background(), cases, seeds, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Table(Metrics(cases[0].Setup), out)
}

func TestAComparisonIsDrawnWithItsIntervals(t *testing.T) {
	rows := table(t, 4, "lowrtt", "shortest")
	var b bytes.Buffer
	if err := SVG(&b, "a < b & c", rows, nil); err != nil {
		t.Fatal(err)
	}
	n := elements(t, b.Bytes())
	if n[".dot"] != 2*len(rows) || n[".interval"] != 2*len(rows) || n[".panel"] != len(rows) {
		t.Errorf("for %d metrics of two schedulers there are %d dots and %d intervals", len(rows), n[".dot"], n[".interval"])
	}
	// the first dot and its interval stand where the estimate says
	c, most := rows[0].Cells[0], rows[0].reach()
	x := func(v float64) float64 { return labelSpace + v/most*(svg.Width-labelSpace-textSpace) }
	for _, want := range []string{
		fmt.Sprintf(`<circle class="dot" cx="%.1f"`, x(c.Mean)),
		fmt.Sprintf(`<path class="interval" d="M%.1f %.1fL%.1f`, x(c.Mean-c.Half), 102.0, x(c.Mean+c.Half)),
		"means of 4 runs",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %s:\n%s", want, b.String())
		}
	}
}

func TestOneRunHasNoIntervals(t *testing.T) {
	var b bytes.Buffer
	if err := SVG(&b, "one", table(t, 1, "lowrtt"), nil); err != nil {
		t.Fatal(err)
	}
	if n := elements(t, b.Bytes()); n[".interval"] != 0 || !strings.Contains(b.String(), "no confidence intervals") {
		t.Errorf("one run has %d intervals", n[".interval"])
	}
}

func TestASweepIsDrawnAsLines(t *testing.T) {
	rows := table(t, 3, "lowrtt", "shortest", "lowrtt", "shortest", "lowrtt", "shortest")
	var b bytes.Buffer
	s := &Sweep{Parameter: "path.a.delay", Values: []string{"1ms", "2ms", "<5ms>"}, Schedulers: []string{"lowrtt", "shortest"}}
	if err := SVG(&b, "sweep", rows, s); err != nil {
		t.Fatal(err)
	}
	n := elements(t, b.Bytes())
	lines := strings.Count(b.String(), `fill="none" stroke="#`)
	if n[".interval"] != 6*len(rows) || lines != 2*len(rows) {
		t.Errorf("%d metrics: %d intervals, %d lines", len(rows), n[".interval"], lines)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("a figure is none:\n%s", b.String())
	}
}

func TestSteps(t *testing.T) {
	for most, want := range map[float64]float64{1: 0.2, 10: 2, 29: 5, 31: 10, 1000: 200, 0.003: 0.001} {
		if got := niceStep(most); math.Abs(got-want) > 1e-9 {
			t.Errorf("up to %g: %g, want %g", most, got, want)
		}
	}
}
