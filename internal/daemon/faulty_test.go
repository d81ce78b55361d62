package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weft/internal/daemon"
	"weft/internal/fault"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// faultyVerb asks the test's own program, run again, to be weft and to kill itself at
// a point: "run COUNT FILE", "reload COUNT FILE", where the points count from READY on,
// or "unload COUNT". It writes the point that it is killed at into faultyNote. With
// count 0 it lives, and writes each point that it passes.
const (
	faultyVerb = "WEFT_FAULTY_VERB"
	faultyNote = "WEFT_FAULTY_NOTE"
)

// faulty reports whether this process is such a weft, once it has ended.
func faulty() bool {
	words := strings.Fields(os.Getenv(faultyVerb))
	if len(words) == 0 {
		return false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	count, err := strconv.Atoi(words[1])
	if err != nil {
		panic(err)
	}
	killer := &killer{at: int64(count), note: os.Getenv(faultyNote)}
	fault.Call(killer.pass)
	killer.armed.Store(words[0] != "reload")
	if words[0] == "unload" {
		_, err = daemon.Unload(ctx)
	} else {
		level := new(slog.LevelVar)
		err = daemon.Run(ctx, daemon.Options{
			File: words[2], Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})), Level: level,
			Warn:  func(problems []state.Problem) { fmt.Fprintln(os.Stderr, problems) },
			Ready: func() { killer.armed.Store(true) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// killer ends the process at one of the points that it passes.
type killer struct {
	armed  atomic.Bool
	passed atomic.Int64
	at     int64
	note   string
}

func (k *killer) pass(p fault.Point, what string) {
	if !k.armed.Load() {
		return
	}
	n := k.passed.Add(1)
	if k.at != 0 && n != k.at {
		return
	}
	f, err := os.OpenFile(k.note, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		what, _, _ = strings.Cut(what, "\n")
		_, err = fmt.Fprintf(f, "%s: %s\n", p, what)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
	if k.at != 0 {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // no other step while the signal is on its way
	}
}

// faults is a router that is killed at its points, one after the other.
type faults struct {
	*topology
	note, before string // the host without weft
}

func newFaults(t *testing.T) *faults {
	w := &faults{topology: newTopology(t, ""), note: filepath.Join(t.TempDir(), "note")}
	w.cable("vm", spacetest.New(t, "vm"))
	w.before = w.whole()
	return w
}

// whole is state with the programs that are attached to devices and the directories.
func (w *faults) whole() string {
	w.t.Helper()
	var b strings.Builder
	b.WriteString(w.state())
	if err := w.router.Do(func() error { return attached(&b) }); err != nil {
		w.t.Fatal(err)
	}
	for _, dir := range []string{w.place().Pins, w.place().Run} {
		if _, err := os.Stat(dir); err == nil {
			fmt.Fprintln(&b, dir, "is there")
		}
	}
	return b.String()
}

// attached lists the programs in TC of the namespace; ip link shows those of XDP.
func attached(to io.Writer) error {
	devices, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, d := range devices {
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			found, err := link.QueryPrograms(link.QueryOptions{Target: d.Index, Attach: hook})
			if err != nil {
				return err
			}
			for _, p := range found.Programs {
				fmt.Fprintf(to, "program %d on %s %s\n", p.ID, d.Name, hook)
			}
		}
	}
	return nil
}

// faulty starts a weft that is killed at its count-th point.
func (w *faults) faulty(verb string, count int) *running {
	w.t.Helper()
	if err := os.RemoveAll(w.note); err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", faultyVerb, verb, count, w.file), faultyNote+"="+w.note)
	return w.begin(c)
}

// points are those that the last one was killed at, or passed.
func (w *faults) points() []string {
	w.t.Helper()
	text, err := os.ReadFile(w.note)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// begins waits until it is ready, which it reports, or has ended.
func (r *running) begins() bool {
	r.t.Helper()
	late := time.After(patience)
	for {
		select {
		case note := <-r.notes:
			if strings.HasPrefix(note, "READY=1") {
				return true
			}
		case <-r.ended:
			return false
		case <-late:
			r.t.Fatalf("it neither is ready nor ends\n%s", r.log)
		}
	}
}

// died waits until it is ready or has ended, and reports whether it was killed.
func (r *running) died() bool {
	r.t.Helper()
	if r.begins() || r.exit == nil {
		return false
	}
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("it ended by itself: %v\n%s", r.exit, r.log)
	}
	return true
}

// recovers fails unless weft starts after a kill, and leaves nothing when it is unloaded.
func (w *faults) recovers(after string) {
	w.t.Helper()
	r := w.launch()
	if r.died() {
		w.t.Fatalf("killed after %s: the next start is killed too", after)
	}
	w.comesToRest()
	r.stop()
	w.unloads(after)
}

// unloads fails unless weft unload leaves the host as it was.
func (w *faults) unloads(after string) {
	w.t.Helper()
	if out, err := w.weft("unload"); err != nil {
		w.t.Fatalf("killed after %s: weft unload: %v\n%s", after, err, out)
	}
	if left := w.whole(); left != w.before {
		w.t.Fatalf("killed after %s: the host after unload differs:\n%s", after, differences(w.before, left))
	}
}
