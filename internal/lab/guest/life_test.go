package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCommandsInAGuestGiveTheirOutputAndExitStatus(t *testing.T) {
	for name, spec := range kinds {
		if name == "qemu-6.1" {
			continue // the same agent on the same serial line
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec.Name, spec.Dir = "g1", shortDir(t)
			m := b.start(spec)
			for _, c := range []struct {
				command, output string
				exit            int
			}{
				{"echo out; exit 3", "out\n", 3},
				{"echo err >&2; exit 4", "err\n", 4},
				{"kill -9 $$", "", 128 + 9},
				{"printf 'a\\003b\\000\\004\\r\\n'", "a\x03b\x00\x04\r\n", 0},
				{"sleep 1000 & echo left it", "left it\n", 0},
			} {
				output, exit, err := m.Exec(t.Context(), "sh", "-c", c.command)
				if err != nil || exit != c.exit || string(output) != c.output {
					t.Errorf("%s: %q, exit %d, %v; want %q, exit %d", c.command, output, exit, err, c.output, c.exit)
				}
			}
			if _, _, err := m.Exec(t.Context(), "no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
				t.Errorf("a program that is not there: %v", err)
			}
			checkLongOutputs(t, m)
			checkKilledWithItsContext(t, m)
			checkSecondView(t, m)
			checkExecRole(t, m)
		})
	}
}

// checkLongOutputs runs several talkative commands at once.
func checkLongOutputs(t *testing.T, m *Machine) {
	t.Helper()
	const lines = 20000
	var all sync.WaitGroup
	for _, word := range []string{"one", "two", "three"} {
		all.Go(func() {
			output, exit, err := m.Exec(t.Context(), "sh", "-c", "yes "+word+" | head -n "+strconv.Itoa(lines))
			want := strings.Repeat(word+"\n", lines)
			if err != nil || exit != 0 || sha256.Sum256(output) != sha256.Sum256([]byte(want)) {
				t.Errorf("%d lines of %s: %d bytes, exit %d, %v", lines, word, len(output), exit, err)
			}
		})
	}
	all.Wait()
}

func checkKilledWithItsContext(t *testing.T, m *Machine) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	var once sync.Once
	output := writerFunc(func(b []byte) (int, error) {
		if len(b) > 0 {
			once.Do(func() { close(started) })
		}
		return len(b), nil
	})
	go func() {
		<-started
		cancel()
	}()
	_, err := m.Run(ctx, Command{Argv: []string{"sh", "-c", "echo started; sleep 4321 & sleep 4321"}, Stdout: output, Stderr: output})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a command whose context ended: %v", err)
	}
	for { // until the kill has gone through: the test's own deadline is the bound
		left := mustExec(t, m, "sh", "-c", "grep -l '[4]321' /proc/[0-9]*/cmdline 2>/dev/null || true")
		if left == "" {
			return
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// checkSecondView opens the guest again, as another process would.
func checkSecondView(t *testing.T, m *Machine) {
	t.Helper()
	again, err := Open(t.Context(), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustExec(t, again, "hostname"); got != "g1\n" {
		t.Errorf("hostname through a second view: %q", got)
	}
	again.Close()
	if got := mustExec(t, m, "hostname"); got != "g1\n" {
		t.Errorf("hostname through the first view, the second closed: %q", got)
	}
}

// checkExecRole runs a command by a process on the host that stands for it.
func checkExecRole(t *testing.T, m *Machine) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := InGuest([]string{self, "guest"}, m.dir, "sh", "-c", "sha256sum; echo complaint >&2; exit 7")
	input := bytes.Repeat([]byte("all of this must arrive\n"), 4000)
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	cmd.Run()
	want := fmt.Sprintf("%x  -\n", sha256.Sum256(input))
	if out.String() != want || complaint.String() != "complaint\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%q, %q, %v; want %q", out.String(), complaint.String(), cmd.ProcessState, want)
	}

	// When the process on the host goes, the command in the guest goes.
	argv = InGuest([]string{self, "guest"}, m.dir, "sh", "-c", "echo there; sleep 8765")
	cmd = exec.Command(argv[0], argv[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("there\n"))); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for mustExec(t, m, "sh", "-c", "grep -l '[8]765' /proc/[0-9]*/cmdline 2>/dev/null || true") != "" {
	}
}

// An emulated kernel measures its TSC against timers, and wrongly when its host
// is busy at that moment: its clock ran up to a hundred times as fast, and every
// timeout in the guest was over at once.
func TestAnEmulatedGuestsClockIsRightThoughItsTSCWasMeasuredWrong(t *testing.T) {
	b := newBench(t)
	m := b.start(Spec{
		Kind: QEMU, Accel: "tcg", Name: "g1", Dir: shortDir(t),
		options: []string{"tsc_early_khz=240000"}, // a tenth of what processors have
	})
	begin, first := time.Now(), mustExec(t, m, "date", "+%s")
	mustExec(t, m, "sleep", "2")
	second, took := mustExec(t, m, "date", "+%s"), time.Since(begin)
	var from, to int64
	if _, err := fmt.Sscan(first+" "+second, &from, &to); err != nil {
		t.Fatal(err)
	}
	if passed := time.Duration(to-from) * time.Second; passed > took+time.Second {
		t.Errorf("%v passed in the guest while %v passed here", passed, took)
	}
}

func TestTheConsoleIsAShellInTheGuest(t *testing.T) {
	for _, name := range []string{"uml", "qemu-6.12"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec := kinds[name]
			spec.Name, spec.Dir = "g1", shortDir(t)
			m := b.start(spec)
			var seen bytes.Buffer
			typed := strings.NewReader("echo $((20+3))-at-$(hostname)\n")
			err := m.Attach(t.Context(), typed, writerFunc(func(p []byte) (int, error) {
				seen.Write(p)
				if strings.Contains(seen.String(), "23-at-g1") {
					return 0, errSeen
				}
				return len(p), nil
			}))
			if !errors.Is(err, errSeen) {
				t.Fatalf("%v; the console showed %q", err, seen.String())
			}
		})
	}
}

var errSeen = errors.New("seen")

func TestStoppingAGuestLeavesNoProcessAndNoDirectory(t *testing.T) {
	for _, name := range []string{"uml", "qemu-6.12"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tap("tap0", "10.9.0.1/24")
			spec := kinds[name]
			spec.Name, spec.Dir, spec.NICs, spec.Netns = "g1", shortDir(t), []NIC{lanNIC()}, b.path
			m, err := Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.processes()) < 2 {
				t.Errorf("while it runs: %q", b.processes())
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := b.processes(); len(left) > 0 {
				t.Errorf("processes left: %q", left)
			}
			if _, err := os.Stat(spec.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory: %v", err)
			}
			if carrier := b.run("ip", "link", "show", "tap0"); !strings.Contains(carrier, "NO-CARRIER") {
				t.Errorf("a process still holds the tap: %s", carrier)
			}
			b.run("ip", "link", "delete", "tap0")
		})
	}
}

func TestTheEndOfAGuestsKernelIsNoticed(t *testing.T) {
	for name, end := range map[string]func(b *bench, m *Machine){
		"killed from outside": func(b *bench, m *Machine) {
			children, err := exec.Command("pgrep", "-P", strconv.Itoa(m.pid)).Output()
			if err != nil {
				b.t.Fatal(err)
			}
			for _, pid := range strings.Fields(string(children)) {
				if err := exec.Command("kill", "-9", pid).Run(); err != nil {
					b.t.Fatal(err)
				}
			}
		},
		"panicked": func(b *bench, m *Machine) {
			m.Exec(b.t.Context(), "sh", "-c", "echo c > /proc/sysrq-trigger")
		},
	} {
		for _, kind := range []string{"uml", "qemu-6.12"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				b := newBench(t)
				spec := kinds[kind]
				spec.Name, spec.Dir = "g1", shortDir(t)
				m := b.start(spec)
				if m.Err() != nil {
					t.Fatal(m.Err())
				}
				end(b, m)
				<-m.Done()
				if err := m.Err(); err == nil || !strings.Contains(err.Error(), "ended") {
					t.Errorf("Err says %v", err)
				}
				if _, _, err := m.Exec(t.Context(), "true"); err == nil {
					t.Error("a command ran in a guest that is gone")
				}
			})
		}
	}
}

func TestAGuestThatCannotBeSetUpSaysWhyAndLeavesNothing(t *testing.T) {
	nic := lanNIC()
	nic.Tap = "nosuch0"
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"script fails":     {func(s *Spec) { s.Script = "echo oh dear; false" }, "oh dear"},
		"no such sysctl":   {func(s *Spec) { s.Sysctls = map[string]string{"net.nonsense": "1"} }, "net/nonsense"},
		"no such module":   {func(s *Spec) { s.Modules = []string{"nonsense"} }, "module nonsense"},
		"no such kernel":   {func(s *Spec) { s.Kernel = "5.99" }, "linux-image-5.99-amd64"},
		"too little time":  {func(s *Spec) { s.Patience = 300 * time.Millisecond }, "deadline exceeded"},
		"a route too many": {func(s *Spec) { s.Routes = []Route{{NIC: "lan7"}} }, "route"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec := Spec{Kind: UML, Name: "g1", Dir: shortDir(t), Netns: b.path}
			if name == "no such kernel" {
				spec.Kind = QEMU
			}
			c.change(&spec)
			m, err := Start(t.Context(), spec)
			if err == nil {
				m.Stop(t.Context())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant it to mention %q", err, c.want)
			}
			if _, err := os.Stat(spec.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory: %v", err)
			}
			if left := b.processes(); len(left) > 0 {
				t.Errorf("processes left: %q", left)
			}
		})
	}
}

func TestNothingThatAUMLGuestDoesReachesTheHostsFiles(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	if err := os.WriteFile(canary, []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	m := b.start(Spec{Kind: UML, Name: "g1", Dir: shortDir(t)})

	// What programs do all day works, in the guest.
	mustExec(t, m, "sh", "-ec", `echo changed > "$1"; echo new > "$1.new"; rm /etc/hostname; mkdir /srv/here; test changed = "$(cat "$1")"`, "sh", canary)
	// A guest that means harm gets at the host's file system, but cannot write.
	mustExec(t, m, "sh", "-ec", `mkdir /run/host; mount -t hostfs none /run/host -o /; test untouched = "$(cat "/run/host$1")"`, "sh", canary)
	for _, harm := range []string{
		`echo harm > "/run/host$1"`, `echo harm > "/run/host$1.harm"`, `rm "/run/host$1"`, `chmod 0 "/run/host$1"`,
		`mkdir "/run/host$1.dir"`, `ln -s x "/run/host$1.link"`, `mv "/run/host$1" "/run/host$1.moved"`, `touch -d 2001-01-01 "/run/host$1"`,
		`echo 1 > /run/host/proc/sys/net/ipv4/ip_forward`,
	} {
		output, exit, err := m.Exec(t.Context(), "sh", "-c", harm, "sh", canary)
		if err != nil || exit == 0 {
			t.Errorf("%s: went through: %s %v", harm, output, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
	if content, err := os.ReadFile(canary); string(content) != "untouched" {
		t.Errorf("the file says %q, %v", content, err)
	}
	for _, path := range []string{"/srv/here"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s on the host: %v", path, err)
		}
	}
}
