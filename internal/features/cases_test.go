package features_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/state"
)

var update = flag.Bool("update", false, "write what weft check says of the files in testdata/cases")

// casesMark begins a line that weft check must print of the file above it.
const casesMark = "#! "

// The files are configurations that people have posted or tried, and that went wrong there
// or here; testdata/cases/README.md has the list. weft check says of each, on any host, what
// stands below it.
func TestCheckSaysOfEachCaseWhatIsWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.toml")
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		toml, want, _ := strings.Cut(string(text), casesMark)
		if want != "" {
			want = casesMark + want
		}
		f, problems := config.Load("", []byte(toml), features.Sections())
		if !state.HasErrors(problems) {
			problems = append(problems, features.Check(f)...)
		}
		var got strings.Builder
		for _, p := range state.Distinct(problems) {
			got.WriteString(casesMark + strings.TrimPrefix(p.String(), ":") + "\n")
		}
		if *update {
			if err := os.WriteFile(file, []byte(toml+got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got.String() != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got.String(), want)
		}
	}
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// The table of cases names tests that exist.
func TestTheTableOfCasesNamesTests(t *testing.T) {
	table, err := os.ReadFile("testdata/cases/README.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`).FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllSubmatch(table, -1)
	if len(named) < 50 {
		t.Errorf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !there[string(m[1])] {
			t.Errorf("README.md names the test %s, which does not exist", m[1])
		}
	}
}
