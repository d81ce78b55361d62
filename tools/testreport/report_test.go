package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type fakeHost struct {
	root bool
	file bool
	pack bool
}

func (h fakeHost) Root() bool             { return h.root }
func (h fakeHost) HasFile(string) bool    { return h.file }
func (h fakeHost) HasPackage(string) bool { return h.pack }

var able = fakeHost{root: true, file: true, pack: true}

func TestReport(t *testing.T) {
	run := func(test string) string { return `{"Action":"run","Package":"p","Test":"` + test + `"}` + "\n" }
	end := func(test, how string) string {
		return `{"Action":"` + how + `","Package":"p","Test":"` + test + `"}` + "\n"
	}
	say := func(test, what string) string {
		return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"` + what + `\n"}` + "\n"
	}
	whole := func(how string) string { return `{"Action":"` + how + `","Package":"p"}` + "\n" }
	for _, c := range []struct {
		name   string
		events string
		ended  bool
		host   host
		well   bool
		last   string
		shows  string
	}{
		{"a test that passes is counted and says nothing", run("A") + say("A", "chatter") + end("A", "pass") + whole("pass"),
			true, able, true, "1 passed, 0 failed, 0 skipped", ""},
		{"a package's ok line is shown as go test writes it", `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n",
			true, able, true, "0 passed, 0 failed, 0 skipped", "ok  \tp\t0.1s\n"},
		{"a test that fails is shown with what it said", run("A") + say("A", "a_test.go:1: broken") + end("A", "fail") + whole("fail"),
			false, able, false, "0 passed, 1 failed, 0 skipped", "broken"},
		{"a subtest's failure is counted once, not for its parent too", run("A") + run("A/b") + run("A/c") + end("A/b", "fail") + end("A/c", "pass") + end("A", "fail") + whole("fail"),
			false, able, false, "1 passed, 1 failed, 0 skipped", ""},
		{"a parent that fails on its own account is counted", run("A") + run("A/b") + end("A/b", "pass") + end("A", "fail") + whole("fail"),
			false, able, false, "1 passed, 1 failed, 0 skipped", ""},
		{"a package that fails without a test is counted", whole("fail"),
			false, able, false, "0 passed, 1 failed, 0 skipped", ""},
		{"a package that does not build is shown and counted", `{"Action":"build-output","ImportPath":"p","Output":"x.go:1: undefined\n"}` + "\n" + whole("fail"),
			false, able, false, "0 passed, 1 failed, 0 skipped", "undefined"},
		{"go test's own failure counts even if no test failed", "",
			false, able, false, "0 passed, 1 failed, 0 skipped", ""},
		{"a test that never ended is a failure", run("A") + say("A", "last words") + whole("fail"),
			false, able, false, "0 passed, 1 failed, 0 skipped", "last words"},
		{"a skip for want of root is fine without root", run("A") + say("A", "a_test.go:3: labs need root") + end("A", "skip"),
			true, fakeHost{}, true, "0 passed, 0 failed, 1 skipped", "ok  p A: labs need root"},
		{"a skip for want of root is a failure with root", run("A") + say("A", "a_test.go:3: labs need root") + end("A", "skip"),
			true, able, false, "0 passed, 1 failed, 0 skipped", "BAD p A: labs need root"},
		{"a skip with a reason of its own is a failure", run("A") + say("A", "a_test.go:3: I do not feel like it") + end("A", "skip"),
			true, fakeHost{}, false, "0 passed, 1 failed, 0 skipped", "BAD"},
		{"a skip without a reason is a failure", run("A") + end("A", "skip"),
			true, fakeHost{}, false, "0 passed, 1 failed, 0 skipped", "no reason given"},
		{"shared cases that are not there may be left out", run("A") + say("A", "a_test.go:3: the cases are not beside this checkout") + end("A", "skip"),
			true, fakeHost{root: true}, true, "0 passed, 0 failed, 1 skipped", "not beside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			if err := eachLine(strings.NewReader(c.events), r.event); err != nil {
				t.Fatal(err)
			}
			if well := r.close(c.ended, reasons(c.host)); well != c.well {
				t.Errorf("all well: %v, want %v", well, c.well)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != c.last {
				t.Errorf("ends with %q, want %q", last, c.last)
			}
			if !strings.Contains(out.String(), c.shows) {
				t.Errorf("does not show %q:\n%s", c.shows, out.String())
			}
			if strings.Contains(out.String(), "chatter") {
				t.Error("shows what a test that passed said")
			}
		})
	}
}

// The tool against the real go test, in a module made for it.
func TestARealRunOfGoTest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"a_test.go": `package example

import "testing"

func TestGood(t *testing.T) {}
func TestBad(t *testing.T)  { t.Fatal("this is broken") }
func TestLazy(t *testing.T) { t.Skip("not today") }
`,
		"b/b_test.go": "package b\n\nfunc broken( {\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool := filepath.Join(dir, "testreport")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(tool, "./...")
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err == nil {
		t.Error("status 0 in spite of failures")
	}
	// a failed test, a package that does not build, a skip without reason
	for _, want := range []string{"this is broken", "BAD example TestLazy: not today", "\n1 passed, 3 failed, 0 skipped\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("does not show %q:\n%s", want, out)
		}
	}
}
