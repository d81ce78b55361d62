package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a text file. Line and Column count from 1; a zero
// Line means that the place is not known more exactly than the file.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Severity decides whether a problem stops weft.
type Severity uint8

const (
	Error   Severity = iota // weft refuses to run with it
	Warning                 // weft runs, but not as the author may think
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Problem is one mistake in the configuration, or a missing capability of the host:
// where, what, and the remedy.
type Problem struct {
	Severity Severity `json:"severity"`
	Pos      Position `json:"position"`
	Path     string   `json:"path"`   // the key, as in nat64.main.prefix
	What     string   `json:"what"`   // what is wrong
	Remedy   string   `json:"remedy"` // what would be right
	// Condition of what the section asks for, while weft runs with the problem: a
	// line of weft show health. Empty: it works, the problem is advice.
	Condition Condition `json:"condition,omitempty"`
}

// Health is the problem as a line of weft show health.
func (p Problem) Health() Health {
	section, name, _ := strings.Cut(p.Path, ".")
	name, _, _ = strings.Cut(name, ".")
	return Health{Feature: section, Name: name, Condition: p.Condition, Because: p.What, Remedy: p.Remedy}
}

// String returns the problem in one line, as compilers do.
func (p Problem) String() string {
	s := fmt.Sprintf("%s: %s: ", p.Pos, p.Severity)
	if p.Path != "" {
		s += p.Path + ": "
	}
	s += p.What
	if p.Remedy != "" {
		s += " (" + p.Remedy + ")"
	}
	return s
}

// SortProblems orders problems by place, then by text.
func SortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.What, b.What),
		)
	})
}

// HasErrors reports whether any problem is more than a warning.
func HasErrors(ps []Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == Error })
}

// Distinct removes duplicate problems, and sorts the rest.
func Distinct(problems []Problem) (kept []Problem) {
	for _, p := range problems {
		if !slices.ContainsFunc(kept, func(k Problem) bool { return k.Pos == p.Pos && k.What == p.What }) {
			kept = append(kept, p)
		}
	}
	SortProblems(kept)
	return kept
}
