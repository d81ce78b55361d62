package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weft/internal/version"
)

// role is the environment variable that makes a process of this test a helper.
const role = "WEFT_TEST_HELPER"

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "echo": // what the tests need: each message comes back, some do harm
		fmt.Fprintln(os.Stderr, "hello, log")
		err := Serve(context.Background(), name, func(ctx context.Context, l *Line, m Message) error {
			switch string(m.Data) {
			case "panic":
				go func() { panic("of a library's goroutine") }()
				select {}
			case "hang":
				select {}
			case "fail":
				return errors.New("no more")
			}
			return l.Send(ctx, m)
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "old":
		conn, _ := net.FileConn(os.NewFile(socket, "line"))
		text, _ := json.Marshal(greeting{name, "0.0.1"})
		write(conn, Message{hello, text})
	case "other":
		conn, _ := net.FileConn(os.NewFile(socket, "line"))
		write(conn, Message{7, []byte("hello")})
	case "broken":
		os.Exit(7)
	}
	os.Exit(0)
}

// running is a helper of a test and what has come from it.
type running struct {
	*Helper
	t  *testing.T
	mu sync.Mutex
	in []Message
	// why its processes have ended
	ends []string
}

const patience = time.Minute

func start(t *testing.T, as string) *running {
	t.Helper()
	t.Setenv(role, as)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t}
	r.Helper = Start(t.Context(), Spec{
		Program: self, First: Message{1, []byte("first")},
		Receive: func(_ context.Context, m Message) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.in = append(r.in, m)
		},
		Ended: func(_ context.Context, why error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ends = append(r.ends, fmt.Sprint(why))
		},
	})
	t.Cleanup(r.Stop)
	return r
}

func (r *running) eventually(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it did not happen that %s; ended: %q; fault: %v", what, r.ends, r.Fault())
		}
	}
}

// got reports how many messages with a text have come.
func (r *running) got(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.in {
		if string(m.Data) == text {
			n++
		}
	}
	return n
}

func (r *running) ended(text string) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(strings.Join(r.ends, "\n"), text)
	}
}

func (r *running) send(text string) {
	r.t.Helper()
	if err := r.Send(Message{2, []byte(text)}); err != nil {
		r.t.Fatal(err)
	}
}

func TestMessagesGoBothWays(t *testing.T) {
	r := start(t, "echo")
	r.eventually("the first message is handled", func() bool { return r.got("first") == 1 })
	for i := range queued {
		r.send(fmt.Sprint("message ", i))
	}
	large := strings.Repeat("x", Largest)
	r.eventually("a large one is taken", func() bool { return r.Send(Message{3, []byte(large)}) == nil })
	r.eventually("all come back", func() bool { return r.got(large) == 1 })
	for i := range queued {
		if r.got(fmt.Sprint("message ", i)) != 1 {
			t.Errorf("message %d came %d times", i, r.got(fmt.Sprint("message ", i)))
		}
	}
	if err := r.Send(Message{2, make([]byte, Largest+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message that is too large: %v", err)
	}
	if err := r.Fault(); err != nil {
		t.Error(err)
	}
	pid := r.Process()
	r.Stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process after Stop: %v", err)
	}
	if len(r.ends) != 0 {
		t.Errorf("a stop counts as an end: %q", r.ends)
	}
}

func TestAHelperThatEndsIsStartedAgainAndTheFaultNamesWhy(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*running)
		want string
	}{
		"a panic in another goroutine": {func(r *running) { r.send("panic") }, "panic: of a library's goroutine"},
		"kill -9":                      {func(r *running) { syscall.Kill(r.Process(), syscall.SIGKILL) }, "signal: killed"},
		"an error":                     {func(r *running) { r.send("fail") }, "exit status 1"},
		"a handler that hangs":         {func(r *running) { r.send("hang") }, "it has not answered"},
		"a process that is stopped":    {func(r *running) { syscall.Kill(r.Process(), syscall.SIGSTOP) }, "it has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "echo")
			r.eventually("it works", func() bool { return r.got("first") == 1 })
			first := r.Process()
			c.do(r)
			r.eventually("it is started again", func() bool { return r.got("first") == 2 })
			if !r.ended(c.want)() {
				t.Errorf("it has ended by %q, want %q", r.ends, c.want)
			}
			if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the process before: %v", err)
			}
			r.send("and on")
			r.eventually("messages go on", func() bool { return r.got("and on") == 1 })
			if err := r.Fault(); err == nil || !strings.Contains(err.Error(), "it has ended once") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the fault afterwards is %v", err)
			}
			if err := r.past(time.Now().Add(remembered + time.Minute)); err != nil {
				t.Errorf("much later: %v", err)
			}
		})
	}
}

func TestAHelperThatDoesNotFitIsAFault(t *testing.T) {
	for as, want := range map[string]string{
		"old":    "of version 0.0.1, this weft is " + version.String() + ": install both from one package",
		"other":  "is not the helper.test of weft",
		"broken": "does not start: exit status 7",
	} {
		t.Run(as, func(t *testing.T) {
			r := start(t, as)
			r.eventually("it is refused", func() bool { return r.Fault() != nil })
			if err := r.Fault(); !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err := r.Send(Message{2, nil}); !errors.Is(err, ErrDown) {
				t.Errorf("a message for it: %v", err)
			}
		})
	}
}

func TestAHelperThatIsMissingIsNamed(t *testing.T) {
	if _, err := Find("weft-nothing"); err == nil || !strings.Contains(err.Error(), "weft-nothing is missing: install it beside weft") {
		t.Error(err)
	}
	plain := filepath.Join(t.TempDir(), "weft-plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(plain); err == nil || !strings.Contains(err.Error(), "is not a program") {
		t.Error(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := Find(filepath.Base(self)); path != self {
		t.Errorf("beside %s is %s, %v", self, path, err)
	}
}

// The queue for a helper that does not read is bounded, and sending does not wait.
func TestMessagesForAHelperThatDoesNotReadAreRefused(t *testing.T) {
	r := start(t, "echo")
	r.eventually("it works", func() bool { return r.got("first") == 1 })
	syscall.Kill(r.Process(), syscall.SIGSTOP)
	data := make([]byte, 1<<19)
	for i := 0; ; i++ {
		if err := r.Send(Message{2, data}); errors.Is(err, ErrFull) {
			if r.Waiting() < 0.9 {
				t.Errorf("full, and %g wait", r.Waiting())
			}
			return
		} else if err != nil || i > queued+10 {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestPausesGrowWhileProcessesEndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Helper{}
		if h.gap() != 0 {
			t.Errorf("the first start waits %s", h.gap())
		}
		var gaps []time.Duration
		for range 12 {
			h.note(errors.New("x"), time.Now(), time.Second)
			gaps = append(gaps, h.gap())
		}
		if gaps[0] != leastGap || gaps[1] != 2*leastGap || gaps[11] != mostGap {
			t.Errorf("the pauses are %v", gaps)
		}
		if h.note(errors.New("x"), time.Now(), time.Hour); h.gap() != leastGap {
			t.Errorf("after an hour of work the pause is %s", h.gap())
		}
	})
}

func TestFramesThatAreTooLargeOrCutAreErrors(t *testing.T) {
	if _, err := read(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 1})); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := write(&b, Message{5, []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		if m, err := read(bytes.NewReader(b.Bytes()[:n])); err == nil {
			t.Errorf("%d bytes are %v", n, m)
		}
	}
	if m, err := read(&b); err != nil || m.Kind != 5 || string(m.Data) != "hello" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestWhatAHelperSaysIsBounded(t *testing.T) {
	var logged []string
	w := &words{log: func(s string) { logged = append(logged, s) }}
	for range 1000 {
		fmt.Fprintln(w, "again")
	}
	fmt.Fprint(w, strings.Repeat("x", 100000))
	if len(logged) != mostLines || len(w.rest) > mostLine {
		t.Errorf("%d lines, %d bytes are kept", len(logged), len(w.rest))
	}
	fmt.Fprint(w, "\npanic: nil map\n\ngoroutine 1:\n"+strings.Repeat("deep.go:17\n", 100000))
	logged = nil
	if err := w.explain(errors.New("exit status 2")); err.Error() != "exit status 2: panic: nil map" {
		t.Error(err)
	}
	if len(logged) != 1 || len(logged[0]) > mostStack+mostLine {
		t.Errorf("logged %d", len(logged))
	}
}

func TestWhatSystemdSaysToWeftStaysWithWeft(t *testing.T) {
	got := environment([]string{"PATH=/bin", "NOTIFY_SOCKET=/run/n", "WATCHDOG_USEC=1", "WATCHDOG_PID=2", "LISTEN_FDS=1"})
	if len(got) != 1 || got[0] != "PATH=/bin" {
		t.Error(got)
	}
}
