package state

import "strings"

// Outcome is what became of a packet; the list is bpf/lib/outcome.h.
type Outcome uint32

// Verdict is the coarse form of an Outcome.
type Verdict string

const (
	Forward Verdict = "forward" // weft sent it on, or answered it
	Slow    Verdict = "slow"    // handed to the slow path
	Pass    Verdict = "pass"    // left to the kernel
	Drop    Verdict = "drop"
)

// String returns the name as metrics and tables show it, like drop-truncated.
func (o Outcome) String() string {
	if o >= OutcomeCount {
		return "unknown"
	}
	return outcomes[o].name
}

// Words returns the sentence that explains the outcome.
func (o Outcome) Words() string {
	if o >= OutcomeCount {
		return "not known to this version of weft"
	}
	return outcomes[o].words
}

// Verdict returns the first word of the name; empty for OutcomeNone.
func (o Outcome) Verdict() Verdict {
	first, _, _ := strings.Cut(o.String(), "-")
	switch v := Verdict(first); v {
	case Forward, Slow, Pass, Drop:
		return v
	}
	return ""
}
