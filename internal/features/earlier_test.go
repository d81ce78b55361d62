package features_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/state"
)

// The files of testdata/earlier are examples from before sections and keys were
// renamed, as they were.
func TestFilesOfEarlierVersionsAreRightAfterTheirNamesAreModernised(t *testing.T) {
	files, err := filepath.Glob("testdata/earlier/*.toml")
	if err != nil || len(files) < 14 {
		t.Fatalf("files %q, %v: those are not all", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			result, remarks, ok := config.Modernise(file, text, features.Sections())
			if !ok {
				t.Fatal("no TOML")
			}
			_, problems := config.Load(file, result, features.Sections())
			for _, p := range problems {
				if p.Severity == state.Error {
					t.Error(p)
				}
			}
			_, before := config.Load(file, text, features.Sections())
			if len(remarks) < errorsOf(before) {
				t.Errorf("%d remarks on a file with %d errors:\n%v", len(remarks), errorsOf(before), remarks)
			}
			if was, is := comments(text), comments(result); was != is {
				t.Errorf("the comments change:\n%s\n%s", was, is)
			}
		})
	}
}

func errorsOf(problems []state.Problem) (n int) {
	for _, p := range problems {
		if p.Severity == state.Error {
			n++
		}
	}
	return n
}

// comments returns the comments and blank lines, each with its line.
func comments(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if at := strings.IndexByte(line, '#'); at >= 0 {
			line = line[at:]
		} else if strings.TrimSpace(line) != "" {
			line = "key\n"
		}
		b.WriteString(line)
	}
	return b.String()
}
