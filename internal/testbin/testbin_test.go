package testbin

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheProgramIsBuiltOnceAndRuns(t *testing.T) {
	path := Weft(t)
	if again := Weft(t); again != path {
		t.Errorf("%s, and then %s", path, again)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := build(false) // as another package's tests do
	if err != nil || other != path {
		t.Fatalf("built as %s, then %s, %v", path, other, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the program was written again: %v", err)
	}
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "weft ") {
		t.Errorf("weft version: %v\n%s", err, out)
	}
}

func TestAnotherProgramGetsAnotherPlaceAndOldOnesGo(t *testing.T) {
	dir := t.TempDir()
	latest := filepath.Join(dir, "programs")
	if err := os.Mkdir(latest, 0o755); err != nil {
		t.Fatal(err)
	}
	placed := func(content string) string {
		if err := os.WriteFile(filepath.Join(latest, "weft"), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		path, err := place(dir, latest)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := placed("one")
	second := placed("another")
	if text, err := os.ReadFile(first); err != nil || string(text) != "one" || first == second || placed("one") != first {
		t.Fatalf("%s is %q, %v; the other is %s", first, text, err, second)
	}
	old := time.Now().Add(-2 * keep)
	for _, path := range []string{first, second} {
		if err := os.Chtimes(filepath.Dir(path), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOld(dir, second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the old one: %v", err)
	}
	for _, path := range []string{second, latest} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// go test keeps the result of a test for as long as what it has read is the same.
func TestTheSourcesCountAsRead(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		hour := time.Now().Add(-time.Hour) // go test trusts nothing that has just been written
		for ; path != root; path = filepath.Dir(path) {
			if err := os.Chtimes(path, hour, hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	self, err := os.ReadFile("testbin.go")
	if err != nil {
		t.Fatal(err)
	}
	unixModule, err := command("go", "list", "-m", "-f", "{{.Version}}", "golang.org/x/sys")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	write("go.mod", "module weft\n\ngo 1.26.0\n\nrequire golang.org/x/sys "+unixModule)
	write("go.sum", string(sum))
	write("cmd/weft/main.go", "package main\n\nimport \"weft/said\"\n\nfunc main() { println(said.Word) }\n")
	write("said/said.go", "package said\n\nimport _ \"embed\"\n\n//go:embed deep/word\nvar Word string\n")
	write("said/deep/word", "one")
	write("testbin/testbin.go", string(self))
	write("user/user_test.go", `package user

import (
	"os/exec"
	"testing"

	"weft/testbin"
)

func TestIt(t *testing.T) {
	out, _ := exec.Command(testbin.Weft(t)).CombinedOutput()
	t.Logf("it says %s", out)
}
`)
	run := func() string {
		t.Helper()
		c := exec.Command("go", "test", "-v", "./user")
		c.Dir = root
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	const cached = "(cached)"
	if out := run(); !strings.Contains(out, "it says one") || strings.Contains(out, cached) {
		t.Errorf("the first time:\n%s", out)
	}
	if out := run(); !strings.Contains(out, cached) {
		t.Errorf("nothing has changed, but the test ran again:\n%s", out)
	}
	write("said/deep/word", "two")
	if out := run(); !strings.Contains(out, "it says two") || strings.Contains(out, cached) {
		t.Errorf("a file that is embedded has changed:\n%s", out)
	}
	write("said/more.go", "package said\n\nfunc init() { Word += \", and three\" }\n")
	if out := run(); !strings.Contains(out, "it says two, and three") || strings.Contains(out, cached) {
		t.Errorf("a source has come:\n%s", out)
	}
}
