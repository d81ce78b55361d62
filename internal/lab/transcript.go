package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Summary closes the report of a run.
type Summary struct {
	Lab      string  `json:"lab"`
	Scenario string  `json:"scenario"`
	OK       bool    `json:"ok"`
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`
}

// Report receives the progress of a run. Begin comes before Step and Result.
type Report interface {
	Begin(s *Scenario, lab string)
	Step(s Step)
	Up(elapsed time.Duration, steps int)
	Trying(c Check, number, of int)
	Result(r Result)
	End(s Summary)
}

// JSON writes one object a line: each result, then {"summary": ...}.
type JSON struct{ Out io.Writer }

func (j JSON) line(v any) {
	// A reader that has gone away ends the program by SIGPIPE.
	_ = json.NewEncoder(j.Out).Encode(v)
}

func (JSON) Begin(*Scenario, string) {}
func (JSON) Step(Step)               {}
func (JSON) Up(time.Duration, int)   {}
func (JSON) Trying(Check, int, int)  {}
func (j JSON) Result(r Result)       { j.line(r) }
func (j JSON) End(s Summary)         { j.line(map[string]Summary{"summary": s}) }

// Transcript is the report that people read.
type Transcript struct {
	Out    io.Writer
	Colour bool
	// Slow receives what is being waited for; see Progress.
	Slow *Progress
}

func (t *Transcript) paint(code, text string) string {
	if !t.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *Transcript) bold(s string) string { return t.paint("1", s) }
func (t *Transcript) dim(s string) string  { return t.paint("2", s) }

func (t *Transcript) say(format string, args ...any) { fmt.Fprintf(t.Out, format+"\n", args...) }

// Begin shows the title, the picture and what it is about.
func (t *Transcript) Begin(s *Scenario, lab string) {
	t.say("")
	t.say("  %s  %s", t.bold(lab), s.Title)
	t.say("")
	for _, line := range Draw(s) {
		t.say("%s", strings.TrimRight("  "+t.paint("36", line), " "))
	}
	t.say("")
	for line := range strings.Lines(strings.TrimSpace(s.About)) {
		t.say("  %s", t.dim(strings.TrimRight(line, "\n")))
	}
	if s.About != "" {
		t.say("")
	}
}

// Step keeps quiet unless the step takes long.
func (t *Transcript) Step(s Step) { t.Slow.Now(s.String()) }

// Up reports that all is built.
func (t *Transcript) Up(elapsed time.Duration, steps int) {
	t.Slow.Now("")
	t.say("  %s", t.dim(fmt.Sprintf("built in %.1f s, %d steps", elapsed.Seconds(), steps)))
}

// Trying reports the check that begins.
func (t *Transcript) Trying(c Check, number, of int) {
	t.Slow.Now(c.Name)
	t.say("")
	t.say("  %s %s", t.bold(fmt.Sprintf("%*d.", len(fmt.Sprint(of)), number)), t.bold(sentence(c.Name)))
}

// Result reports a check and its result.
func (t *Transcript) Result(r Result) {
	t.Slow.Now("")
	if r.Kind == "process" {
		t.say("")
		t.say("  %s", t.bold(sentence(r.Check)))
	}
	t.say("     %s", t.dim(r.Tried))
	for _, line := range r.Table {
		t.say("       %s", line)
	}
	mark := t.paint("32", "ok  ")
	if !r.OK {
		mark = t.paint("1;31", "FAIL")
	}
	t.say("     %s %s", mark, strings.ReplaceAll(r.Outcome, "\n", "\n          "))
}

// End sums up.
func (t *Transcript) End(s Summary) {
	t.Slow.Now("")
	t.say("")
	verdict := t.paint("1;32", fmt.Sprintf("All %d checks passed", s.Passed))
	if !s.OK {
		verdict = t.paint("1;31", fmt.Sprintf("%d of %d checks failed", s.Failed, s.Passed+s.Failed))
	}
	t.say("  %s in %.1f s.", verdict, s.Seconds)
	t.say("")
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Progress reports on Out what has been going on for more than two seconds.
type Progress struct {
	Out   io.Writer
	mutex sync.Mutex
	what  string
	since time.Time
	timer *time.Timer
}

const patience = 2 * time.Second

// Now sets what is going on; "" is nothing. A nil Progress is silent.
func (p *Progress) Now(what string) {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.what, p.since = what, time.Now()
	if p.timer != nil {
		p.timer.Stop()
	}
	if what != "" {
		p.timer = time.AfterFunc(patience, p.still)
	}
}

func (p *Progress) still() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.what == "" || time.Since(p.since) < patience {
		return
	}
	fmt.Fprintf(p.Out, "     ... %.0f s: %s\n", time.Since(p.since).Seconds(), p.what)
	p.timer = time.AfterFunc(patience, p.still)
}
