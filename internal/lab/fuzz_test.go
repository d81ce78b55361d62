package lab

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// Whatever a scenario says, it is refused with problems that have a place, or
// it can be planned and drawn.
func FuzzParse(f *testing.F) {
	f.Add(good)
	sources, err := Embedded()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range sources {
		f.Add(string(s.Text))
	}
	everything, err := os.ReadFile("testdata/everything.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(everything))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "weft") {
			text = strings.ReplaceAll(text, "/", "_") // it could name any file to be read
		}
		s, err := parse(text)
		var invalid Invalid
		if errors.As(err, &invalid) {
			for _, p := range invalid {
				if p.What == "" || p.Pos.File == "" || strings.Contains(p.What, "\n") {
					t.Errorf("a problem without words or place, or of several lines: %q", p.String())
				}
			}
		}
		if err == nil {
			Plan(s, "x")
			Draw(s)
		}
	})
}
