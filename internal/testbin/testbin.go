// Package testbin gives tests the weft of this checkout as a program, with its
// helpers beside it. They are built
// once for all packages and kept in Go's build cache.
package testbin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Race is the environment variable that asks for a program with the race
// detector, which needs a C compiler.
const Race = "WEFT_TEST_RACE"

// keep is how long a program stays after its last use by a test.
const keep = 24 * time.Hour

var built = sync.OnceValues(func() (string, error) { return build(os.Getenv(Race) != "") })

// Weft returns the path of the program; its helpers are in the same directory. It is what the sources give now: go build
// decides what has to be built again, each result is kept under a name of its own
// content, so that no other build changes it while a test runs it, and the sources
// count as read by the test, so that go test does not take an old result for it.
func Weft(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatalf("build weft: %v", err)
	}
	return path
}

func build(race bool) (string, error) {
	env, err := command("go", "env", "GOMOD", "GOCACHE")
	if err != nil {
		return "", err
	}
	mod, cache, _ := strings.Cut(strings.TrimSpace(env), "\n")
	root := filepath.Dir(mod)
	if err := readSources(root); err != nil {
		return "", err
	}
	// Outside of the module: what is there does not count as read by the test.
	dir, flags, cgo := filepath.Join(cache, "weft-test", nameOf([]byte(root))), []string(nil), "0"
	if race {
		dir, flags, cgo = dir+"-race", []string{"-race"}, "1"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	latest := filepath.Join(dir, "programs") // go build leaves alone what is up to date
	if err := os.MkdirAll(latest, 0o755); err != nil {
		return "", err
	}
	args := append([]string{"env", "CGO_ENABLED=" + cgo, "go", "build", "-buildvcs=false", "-o", latest + "/"}, flags...)
	if _, err := command(append(args, programs)...); err != nil {
		return "", err
	}
	path, err := place(dir, latest)
	if err != nil {
		return "", err
	}
	return path, removeOld(dir, path)
}

// programs are what is built: weft, and its helpers.
const programs = "weft/cmd/..."

// place copies programs to a directory named after their content, and returns
// the path of weft there.
func place(dir, latest string) (string, error) {
	entries, err := os.ReadDir(latest)
	if err != nil {
		return "", err
	}
	var all []byte
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(latest, e.Name()))
		if err != nil {
			return "", err
		}
		all = append(all, e.Name()+" "+nameOf(content)+"\n"...)
	}
	path := filepath.Join(dir, nameOf(all), "weft")
	now := time.Now()
	if os.Chtimes(filepath.Dir(path), now, now) == nil {
		return path, nil
	}
	aside, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(aside, os.DirFS(latest)); err != nil {
		return "", err
	}
	if err := os.Chmod(aside, 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(aside, filepath.Dir(path))
}

func nameOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// removeOld removes the programs that no test has asked for lately.
func removeOld(dir, except string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || time.Since(info.ModTime()) < keep {
			continue
		}
		if path := filepath.Join(dir, e.Name()); path != filepath.Dir(except) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSources has go test see that the result depends on the sources: it notes
// what a test opens or asks the time of within its module.
func readSources(root string) error {
	list, err := command("go", "list", "-C", root, "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{range .EmbedFiles}}
{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`, programs)
	if err != nil {
		return err
	}
	for _, path := range append(strings.Fields(list), filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum")) {
		f, err := os.Open(path) // of a directory all entries count
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f.Close, nil
}

func command(argv ...string) (string, error) {
	var out, errs bytes.Buffer
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, errs.String())
	}
	return out.String(), nil
}
