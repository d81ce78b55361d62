// Package generated holds the test that what is generated and committed is
// what its sources give.
package generated

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// The whole checkout is copied and generated again, so that the eBPF objects are
// also shown not to depend on where they are built.
func TestGeneratedFilesAreWhatTheirSourcesGive(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19 is not installed")
	}
	fresh := t.TempDir()
	files := checkout(t)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(fresh, name), text)
	}
	// what is no longer generated must not survive by having been copied
	generated := 0
	for _, name := range files {
		object := strings.HasSuffix(name, "_bpfel.o") || strings.HasSuffix(name, ".so")
		if strings.HasSuffix(name, "_bpfel.go") || object {
			generated++
			if object {
				write(t, filepath.Join(fresh, name), nil)
			}
		}
	}
	if generated == 0 {
		t.Fatal("there are no eBPF objects in this checkout")
	}
	c := exec.Command("make", "generate")
	c.Dir = fresh
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("make generate: %v\n%s", err, out)
	}
	for _, name := range files {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, now) {
			t.Errorf("%s is not what its source gives: make generate, and commit it", name)
		}
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// scripts are to be run
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

// checkout lists the files of the repository.
func checkout(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "build" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Type().IsRegular() && d.Name() != ".git":
			name, err := filepath.Rel(root, path)
			files = append(files, name)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
