package statefile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value.json")
	was := map[string]int{"before": 1}
	if found, err := Read(path, &was); found || err != nil || was["before"] != 1 {
		t.Errorf("a file that is missing: found %v, %v, value %v", found, err, was)
	}
	for n := range 3 {
		if err := Write(path, map[string]int{"n": n}); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{"old": 7}
		if found, err := Read(path, &got); !found || err != nil || len(got) != 1 || got["n"] != n {
			t.Errorf("found %v, %v, value %v, want n=%d alone", found, err, got, n)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", info.Mode(), err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("the directory has %v, want one file", list)
	}
}

func TestADamagedFileIsAnErrorWithItsNameAndTheRemedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value.json")
	for _, text := range []string{"", "{", `{"a":1`, `{"a":1}}`, `{"a":"text"}`, "\x00\x00\x00\x00"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		value := map[string]int{"before": 1}
		found, err := Read(path, &value)
		var damaged *Damaged
		if !found || !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("%q: found %v, %v, want a damaged file", text, found, err)
			continue
		}
		if !strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%q: the error is %q", text, err)
		}
		if len(value) != 1 || value["before"] != 1 {
			t.Errorf("%q changed the value to %v", text, value)
		}
	}
}

func TestAPathThatCannotBeReadIsNeitherMissingNorDamaged(t *testing.T) {
	var value int
	found, err := Read(filepath.Join(t.TempDir(), strings.Repeat("long", 100)), &value)
	var damaged *Damaged
	if found || err == nil || errors.As(err, &damaged) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %v, %v", found, err)
	}
}

// Whatever lies in a file's place is damage, and is not waited for.
func TestWhatIsNoFileIsDamagedAndIsSetAside(t *testing.T) {
	for name, place := range map[string]func(string) error{
		"a directory": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
		},
		"a FIFO":                    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to itself":          func(path string) error { return os.Symlink(path, path) },
		"a link to what is missing": func(path string) error { return os.Symlink(path+"-missing", path) },
	} {
		path := filepath.Join(t.TempDir(), "value.json")
		for n := range 3 {
			if err := place(path); err != nil {
				t.Fatal(err)
			}
			var value int
			var damaged *Damaged
			if _, err := Read(path, &value); !errors.As(err, &damaged) {
				t.Errorf("%s: read with %v", name, err)
			}
			if found, err := Cache(path, &value); found || err != nil {
				t.Errorf("%s, time %d: found %v, %v", name, n, found, err)
			}
			if err := Write(path, 7); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if found, err := Cache(path, &value); !found || err != nil || value != 7 {
				t.Errorf("%s: then found %v, %v, %v", name, found, err, value)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 3 {
			t.Errorf("%s: kept are %v, want all three", name, list)
		}
	}
}

func TestAnErrorOnTheWayLeavesTheOldContent(t *testing.T) {
	for _, where := range []step{begun, written, synced} {
		path := filepath.Join(t.TempDir(), "value.json")
		if err := Write(path, "old"); err != nil {
			t.Fatal(err)
		}
		full := errors.New("no space left on device")
		err := replace(path, []byte(`"new"`), func(s step) error {
			if s == where {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", where, err)
		}
		var value string
		if _, err := Read(path, &value); err != nil || value != "old" {
			t.Errorf("%s: the file says %q, %v", where, value, err)
		}
		if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
			t.Errorf("%s: the directory has %v", where, list)
		}
	}
	if err := Write(filepath.Join(t.TempDir(), "absent", "value.json"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is missing: %v", err)
	}
	if err := Write(filepath.Join(t.TempDir(), "value.json"), func() {}); err == nil || !strings.Contains(err.Error(), "value.json") {
		t.Errorf("a value that JSON does not have: %v", err)
	}
}

// killedAt names the step at which the test's own program, run again, is
// killed, and killedFile the file that it replaces.
const (
	killedAt   = "WEFT_STATEFILE_KILLED_AT"
	killedFile = "WEFT_STATEFILE_KILLED_FILE"
)

func TestAKillAtAnyStepLeavesTheOldContentOrTheNewOne(t *testing.T) {
	if where := step(os.Getenv(killedAt)); where != "" {
		err := replace(os.Getenv(killedFile), []byte(`"new"`), func(s step) error {
			if s == where {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		})
		t.Fatalf("not killed at %s: %v", where, err)
	}
	for where, want := range map[step]string{begun: "old", written: "old", synced: "old", renamed: "new"} {
		path := filepath.Join(t.TempDir(), "value.json")
		if err := Write(path, "old"); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), killedAt+"="+string(where), killedFile+"="+path)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v, want a kill\n%s", where, err, out)
		}
		var value string
		if _, err := Read(path, &value); err != nil || value != want {
			t.Errorf("%s: the file says %q, want %q (%v)", where, value, want, err)
		}
		// what the killed process left does not disturb the next one
		if err := Write(path, "next"); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if _, err := Read(path, &value); err != nil || value != "next" {
			t.Errorf("%s: then the file says %q (%v)", where, value, err)
		}
	}
}

// What can be learned again counts as absent if it is damaged, and is kept beside.
func TestADamagedCacheIsSetAside(t *testing.T) {
	for _, text := range []string{"", "{", `{"a":"text"}`, "\x00\x00\x00\x00", "null x"} {
		path := filepath.Join(t.TempDir(), "value.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		value := map[string]int{}
		if found, err := Cache(path, &value); found || err != nil || len(value) > 0 {
			t.Errorf("%q: found %v, %v, value %v", text, found, err, value)
		}
		if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != text {
			t.Errorf("%q: kept %q, %v", text, kept, err)
		}
		if found, err := Cache(path, &value); found || err != nil {
			t.Errorf("%q: the second time: found %v, %v", text, found, err)
		}
	}
}
