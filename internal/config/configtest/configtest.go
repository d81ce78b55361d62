// Package configtest runs files of mistakes: a weft.toml, and below it what
// weft must say of it, one line a problem:
//
//	[router]
//	nmae = "attic"
//	#! 2:1: error: router.nmae: is not a key that weft knows (did you mean name?)
package configtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
)

const mark = "#! "

// Bad loads every *.toml of dir and compares the problems, all of them, with
// what the file expects. It gives the number of files.
func Bad(t *testing.T, dir string, sections []config.Section) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			toml, want := split(string(text))
			if len(want) == 0 {
				t.Fatalf("%s expects no problem: it belongs elsewhere", file)
			}
			got := lines(toml, sections)
			for i := range max(len(got), len(want)) {
				if g, w := line(got, i), line(want, i); g != w {
					t.Errorf("problem %d\n got %s\nwant %s", i+1, g, w)
				}
			}
		})
	}
	return len(files)
}

func split(text string) (toml string, want []string) {
	before, after, _ := strings.Cut(text, mark)
	for l := range strings.SplitSeq(mark+after, "\n") {
		if l, ok := strings.CutPrefix(l, mark); ok && l != "" {
			want = append(want, l)
		}
	}
	return before, want
}

func lines(toml string, sections []config.Section) []string {
	_, problems := config.Load("", []byte(toml), sections)
	out := make([]string, len(problems))
	for i, p := range problems {
		out[i] = strings.TrimPrefix(p.String(), ":")
	}
	return out
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
