// Package example holds the test of the worked example of docs/guides/add-a-feature.md.
package example

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root    = "../.."
	files   = "testdata/dscp"
	changes = "changes.diff"
	guide   = "docs/guides/add-a-feature.md"
)

// tree is a copy of this checkout, to which the example is added.
type tree struct {
	t   *testing.T
	dir string
}

func (w tree) run(name string, args ...string) string {
	w.t.Helper()
	c := exec.Command(name, args...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath") // shares the build cache
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w tree) write(name string, text []byte) {
	w.t.Helper()
	to := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// example lists the files of the example.
func example(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(files, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, strings.TrimPrefix(path, files+"/"))
		}
		return err
	})
	if err != nil || len(list) < 9 {
		t.Fatalf("the example has the files %q (%v)", list, err)
	}
	return list
}

// newTree copies what git has, or would add.
func newTree(t *testing.T) tree {
	t.Helper()
	c := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Fatalf("list the files of the checkout: %v", err)
	}
	w := tree{t, t.TempDir()}
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		from := filepath.Join(root, name)
		if s, err := os.Lstat(from); err != nil || !s.Mode().IsRegular() {
			continue // deleted, or a link
		}
		w.write(name, read(t, from))
	}
	return w
}

// The example is added to a copy of the checkout as the guide says. Its block passes the
// compiler and the verifier, its tests pass, and the weft that it gives knows its section and noun.
func TestTheExampleOfTheGuideWorks(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Fatal("clang-19 is not installed; tools/setup.sh test installs it")
	}
	w := newTree(t)
	for _, name := range example(t) {
		w.write(name, read(t, filepath.Join(files, name)))
	}
	w.run("git", "apply", changes)
	w.run("go", "run", "./tools/constants", "bpf", ".")
	w.run("go", "generate", "./internal/datapath")

	tests := w.run("go", "test", "-count=1", "-v", "./internal/feature/dscp/...")
	for _, name := range []string{"TestLocalCodePointsAreDroppedAndCounted", "TestTheRateIsOfTheTimeBetweenTwoReadings"} {
		if !strings.Contains(tests, "--- PASS: "+name+" ") {
			t.Errorf("%s did not pass:\n%s", name, tests)
		}
	}
	if out := w.run("go", "test", "-count=1", "-v", "-run", "TestAFeatureStandsInFewFiles|TestNobodyImports|TestAFeatureNamesOnly|TestBlocksDoNot", "./internal/archtest"); !strings.Contains(out, "dscp: 2\n") {
		t.Errorf("the example does not stand in two files outside its folder:\n%s", out)
	}

	w.run("go", "build", "-o", "weft", "./cmd/weft")
	w.write("weft.toml", []byte("[interface.wan]\ndevice = \"eth0\"\n[dscp.uplink]\ninterfaces = [\"wan\"]\n"))
	w.run("./weft", "check", "--file-only", "weft.toml")
	if out := w.run("./weft", "show", "dscp", "--help"); !strings.Contains(out, "by interface and DSCP") {
		t.Errorf("weft show dscp --help says\n%s", out)
	}
}

// The guide prints the files of the example as they are.
func TestTheGuidePrintsTheExample(t *testing.T) {
	text := read(t, filepath.Join(root, guide))
	for _, name := range example(t) {
		if !bytes.Contains(text, append([]byte("`"+name+"`"), ':')) {
			t.Errorf("%s does not announce `%s`:", guide, name)
		}
		if !bytes.Contains(text, append(append([]byte("\n"), read(t, filepath.Join(files, name))...), "```\n"...)) {
			t.Errorf("%s does not print %s as it is", guide, name)
		}
	}
}
