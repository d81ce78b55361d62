package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
}

// key names a test; the test of a package as a whole is "".
type key struct{ pkg, test string }

// report gathers what became of each test.
type report struct {
	out     io.Writer
	became  map[key]string   // pass, fail or skip
	said    map[key][]string // output of tests that still run or did not pass
	parents map[key]bool     // tests that have subtests
	begun   time.Time
}

func newReport(out io.Writer) *report {
	return &report{out: out, became: map[key]string{}, said: map[key][]string{}, parents: map[key]bool{}, begun: time.Now()}
}

// event takes in one line of go test -json.
func (r *report) event(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		// go itself speaks here, not a test
		_, err := r.out.Write(line)
		return err
	}
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "run":
		for name := e.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			r.parents[key{e.Package, name}] = true
		}
	case "output":
		r.output(k, e.Output)
	case "pass", "fail", "skip":
		r.end(k, e.Action)
	}
	return nil
}

// output shows what a package says (ok, FAIL, panics) at once, and keeps what
// a test says until it is known whether anybody wants to read it.
func (r *report) output(k key, text string) {
	if k.test != "" {
		r.said[k] = append(r.said[k], text)
		return
	}
	if text != "PASS\n" && !strings.Contains(text, "[no test files]") {
		fmt.Fprint(r.out, text)
	}
}

func (r *report) end(k key, action string) {
	r.became[k] = action
	if action == "fail" {
		fmt.Fprint(r.out, strings.Join(r.said[k], ""))
	}
	if action != "skip" {
		delete(r.said, k)
	}
}

// close prints the end of the report and tells whether all is well. ended says
// that go test itself was content.
func (r *report) close(ended bool, reasons []reason) bool {
	// a test that never ended took its package with it: show its last words
	for _, k := range sorted(r.said) {
		if r.became[k] == "" {
			fmt.Fprintf(r.out, "--- ENDED WITHOUT A RESULT: %s %s\n%s", k.pkg, k.test, strings.Join(r.said[k], ""))
			r.became[k] = "fail"
		}
	}
	passed, failed := r.count("pass"), r.count("fail")
	if !ended && failed == 0 {
		failed = 1
	}
	skips, bad := r.skips(reasons)
	if len(skips) > 0 {
		fmt.Fprintf(r.out, "\nskipped:\n%s", strings.Join(skips, ""))
	}
	if bad > 0 {
		fmt.Fprintf(r.out, "%d skipped without a reason that holds on this machine: they count as failed\n", bad)
	}
	fmt.Fprintf(r.out, "\ntook %s\n%d passed, %d failed, %d skipped\n",
		time.Since(r.begun).Round(time.Second), passed, failed+bad, len(skips)-bad)
	return ended && failed+bad == 0
}

// count counts the tests without subtests that became so, and those with
// subtests or whole packages that failed on their own account.
func (r *report) count(action string) int {
	n := 0
	for k, became := range r.became {
		switch {
		case became != action:
		case k.test != "" && !r.parents[k]:
			n++
		case action == "fail" && !r.failedBelow(k):
			n++
		}
	}
	return n
}

// failedBelow reports whether a test that belongs to k failed.
func (r *report) failedBelow(k key) bool {
	for other, became := range r.became {
		if became != "fail" || other.pkg != k.pkg || other == k {
			continue
		}
		if k.test == "" || strings.HasPrefix(other.test, k.test+"/") {
			return true
		}
	}
	return false
}

// skips returns a line for each test that was skipped, and how many of them had
// no good reason.
func (r *report) skips(reasons []reason) (lines []string, bad int) {
	for _, k := range sorted(r.became) {
		if r.became[k] != "skip" || k.test == "" {
			continue
		}
		said := lastWords(r.said[k])
		mark := "ok "
		if !good(said, reasons) {
			mark = "BAD"
			bad++
		}
		lines = append(lines, fmt.Sprintf("  %s %s %s: %s\n", mark, k.pkg, k.test, said))
	}
	return lines, bad
}

// lastWords returns what a skipped test gave as its reason: the lines that are
// not go test's own, without file and line.
func lastWords(said []string) string {
	var words []string
	for _, l := range said {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		if at, what, ok := strings.Cut(l, ": "); ok && strings.Contains(at, ".go:") {
			l = what
		}
		words = append(words, l)
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

func sorted[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	})
}
