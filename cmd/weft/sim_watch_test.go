package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// watchCommand runs weft sim watch until ctx ends, and gives what it prints first
// and, later, its error.
func watchCommand(ctx context.Context, t *testing.T, args ...string) (first string, ended chan error) {
	t.Helper()
	out, in := io.Pipe()
	root := rootCommand()
	root.SetArgs(append([]string{"sim", "watch"}, args...))
	root.SetOut(in)
	ended = make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	first = lines.Text()
	go io.Copy(io.Discard, out)
	return first, ended
}

func TestWatchServesItsPageUntilItIsToEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := watchCommand(ctx, t, "chunks", "--schedulers", "daps,ecf", "--set", "path.lan.rate=3 Mbit/s")
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("it prints %q, and ends with %v", address, <-ended)
	}
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "Video in chunks") || !strings.Contains(string(text), "<option selected>daps") || !strings.Contains(string(text), `aria-valuetext="3 Mbit/s"`) {
		t.Errorf("the page is %s, %v", text, err)
	}
	rebound, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "evil.example"
	if answer, err := http.DefaultClient.Do(rebound); err != nil || answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another's name it answers %v, %v", answer, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestWatchSaysWhatIsWrong(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"unequl"}, `no scenario is called "unequl"`},
		{[]string{"unequal", "chunks"}, "accepts at most 1 arg"},
		{[]string{"--schedulers", "lowrtt,efc"}, `no scheduler is called "efc"`},
		{[]string{"--schedulers", "lowrtt,ecf,daps"}, "at most two schedulers"},
		{[]string{"--set", "path.fast.rate=quick"}, `"quick" is not a rate`},
		{[]string{"--listen", "0.0.0.0:0"}, "other hosts could reach it: add --remote if they may"},
		{[]string{"--listen", "8080"}, "write HOST:PORT"},
		{[]string{"--listen", busy.Addr().String()}, "address already in use"},
		{[]string{"./no-such-file.toml"}, "read scenario: open ./no-such-file.toml"},
	} {
		_, ended := watchCommand(t.Context(), t, c.args...)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("weft sim watch %s: %v, want %q", strings.Join(c.args, " "), err, c.says)
		}
	}
}

func TestStudiesDrawCharts(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) error {
		root := rootCommand()
		root.SetArgs(append([]string{"sim"}, args...))
		root.SetOut(io.Discard)
		return root.Execute()
	}
	for name, args := range map[string][]string{
		"compare.svg": {"compare", "unequal", "--schedulers", "lowrtt,ecf", "--runs", "2"},
		"sweep.svg":   {"sweep", "unequal", "--schedulers", "lowrtt,ecf", "--runs", "2", "--set", "path.slow.delay=10ms,50ms"},
	} {
		file := filepath.Join(dir, name)
		if err := run(append(args, "--chart", file)...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), "<svg ") || !strings.Contains(string(text), ">ecf</text>") || !strings.Contains(string(text), `class="interval"`) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	// known before the runs, and nothing half-made is left behind
	if err := run("compare", "unequal", "--chart", filepath.Join(dir, "nowhere", "x.svg")); err == nil || !strings.Contains(err.Error(), "draw chart: open ") {
		t.Errorf("into a folder that is not there: %v", err)
	}
	if err := run("compare", "unequal", "--schedulers", "lowrtt,efc", "--chart", filepath.Join(dir, "bad.svg")); err == nil {
		t.Error("an unknown scheduler is no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "bad.svg")); err == nil {
		t.Error("a study that failed leaves a chart")
	}
}
