package netspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testSpace makes a namespace that is gone after the test.
func testSpace(t *testing.T, suffix string) *Space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s, err := Create(fmt.Sprintf("wefttest%d%s", os.Getpid(), suffix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Stop(context.Background(), time.Second, s); err != nil {
			t.Error(err)
		}
		s.Close()
		if err := Delete(s.Name); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestANamespaceIsSeenEnteredAndLeft(t *testing.T) {
	s := testSpace(t, "")
	names, err := List(s.Name)
	if err != nil || !slices.Equal(names, []string{s.Name}) {
		t.Errorf("it is listed as %v, %v", names, err)
	}
	if _, err := Create(s.Name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made a second time: %v, want that it exists", err)
	}
	where := func() string {
		link, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		return link
	}
	outside := where()
	var inside string
	if err := s.Do(func() error { inside = where(); return nil }); err != nil {
		t.Fatal(err)
	}
	if inside == outside || where() != outside {
		t.Errorf("outside %s, inside %s, afterwards %s", outside, inside, where())
	}
	again, err := Open(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	one, err1 := s.Cookie()
	two, err2 := again.Cookie()
	if one == 0 || one != two || err1 != nil || err2 != nil {
		t.Errorf("cookies %d and %d, %v, %v", one, two, err1, err2)
	}
}

func TestOpeningWhatIsNotThereSaysSo(t *testing.T) {
	if _, err := Open("wefttest-none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := Delete("wefttest-none"); err != nil {
		t.Errorf("deleting it: %v", err)
	}
}

func TestProcessesAreFoundAndStoppedAlsoWhenTheyWillNot(t *testing.T) {
	s, other := testSpace(t, "a"), testSpace(t, "b")
	// The first refuses SIGTERM and has a child; the last is in another space.
	for _, c := range []struct {
		in   *Space
		argv []string
	}{
		{s, []string{"sh", "-c", "trap '' TERM; sleep 1001; :"}},
		{s, []string{"sleep", "1002"}},
		{other, []string{"sleep", "1003"}},
	} {
		cmd := exec.Command(c.argv[0], c.argv[1:]...)
		if err := c.in.Start(cmd); err != nil {
			t.Fatal(err)
		}
		go cmd.Wait()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		ps, err := s.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(ps) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("found %v, want the shell and two sleeps", ps)
		}
	}
	if err := Stop(t.Context(), 100*time.Millisecond, s); err != nil {
		t.Fatal(err)
	}
	if ps, err := s.Processes(); err != nil || len(ps) != 0 {
		t.Errorf("left over: %v, %v", ps, err)
	}
	if ps, err := other.Processes(); err != nil || len(ps) != 1 || ps[0].Command != "sleep 1003" {
		t.Errorf("in the other namespace: %v, %v; want its sleep untouched", ps, err)
	}
}

func TestAnInheritedLockFileDoesNotReachTheNode(t *testing.T) {
	s := testSpace(t, "")
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// dup(2) gives a descriptor that is not close-on-exec, as a shell's are.
	inherited, err := unix.Dup(int(lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	var out strings.Builder
	cmd := exec.Command("ls", "-l", "/proc/self/fd")
	cmd.Stdout = &out
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), lock.Name()) {
		t.Errorf("the process has\n%s", out.String())
	}
}

// Each remount of the directory by `ip netns`, of which other processes may run
// several at once, lays one more mount on each namespace's file.
func TestANamespaceIsDeletedHoweverOftenItIsMounted(t *testing.T) {
	s := testSpace(t, "m")
	path := filepath.Join(Dir, s.Name)
	for range 4 { // each doubles them where mounts are shared
		if err := unix.Mount(path, path, "none", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := Delete(s.Name); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is still there: %v", err)
	}
}

// Another process's `ip netns add` mounts nothing over the namespaces that are there.
func TestNamespacesAreDeletedBesideIPNetns(t *testing.T) {
	before := testSpace(t, "before")
	dirs := func() (n int) {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); f[4] == Dir {
				n++
				if !strings.Contains(line, " shared:") {
					t.Errorf("%s is not shared: %s", Dir, line)
				}
			}
		}
		return n
	}
	n := dirs()
	other := before.Name + "-ip"
	for _, verb := range []string{"add", "del"} {
		if out, err := exec.Command("ip", "netns", verb, other).CombinedOutput(); err != nil {
			t.Fatalf("ip netns %s: %v: %s", verb, err, out)
		}
		if dirs() != n || n == 0 {
			t.Errorf("after ip netns %s %s is mounted %d times, before %d times", verb, Dir, dirs(), n)
		}
	}
	if err := Delete(before.Name); err != nil {
		t.Error(err)
	}
}
