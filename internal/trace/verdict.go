package trace

import (
	"slices"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Result is what became of one packet; as JSON it is one line of the report.
type Result struct {
	Packet    int           `json:"packet"` // from 1
	Verdict   state.Verdict `json:"verdict"`
	Reason    string        `json:"reason"` // name of an outcome
	In        string        `json:"in"`
	Outputs   []Sent        `json:"outputs"`
	Decisions []Decision    `json:"decisions"`

	words string // what Reason means
}

// Sent is a packet that left an interface.
type Sent struct {
	Interface string `json:"interface"`
	Hex       string `json:"hex"` // raw IP where the input was, else the frame

	bytes []byte
}

// Decision is what a program, or the slow path, decided, Times times.
type Decision struct {
	Program string `json:"program"`
	Outcome string `json:"outcome"`
	Times   uint64 `json:"times"`

	outcome state.Outcome
}

// slowProgram stands for the slow path among the programs.
const slowProgram = "slow_path"

// tally is what was counted up to one moment.
type tally struct {
	programs []datapath.Count
	slow     map[state.Outcome]uint64
	served   uint64 // packets that slow paths are done with
}

// decided is the number of decisions of programs.
func (t tally) decided() (n uint64) {
	for _, c := range t.programs {
		n += c.Packets
	}
	return n
}

// handedUp is the number of packets given to slow paths.
func (t tally) handedUp() (n uint64) {
	for _, c := range t.programs {
		if c.Outcome.Verdict() == state.Slow {
			n += c.Packets
		}
	}
	return n
}

// since lists the decisions between two moments in the order in which a packet
// meets the programs; the slow path comes before the program that takes what
// it sends.
func (t tally) since(before tally) []Decision {
	list := []Decision{}
	var slow []Decision
	for o := range state.OutcomeCount {
		if n := t.slow[o] - before.slow[o]; n > 0 {
			slow = append(slow, Decision{slowProgram, o.String(), n, o})
		}
	}
	was := func(c datapath.Count) uint64 {
		i := slices.IndexFunc(before.programs, func(b datapath.Count) bool {
			return b.Program == c.Program && b.Outcome == c.Outcome
		})
		if i < 0 {
			return 0
		}
		return before.programs[i].Packets
	}
	for _, c := range t.programs {
		// what the kernel says to groups on the translator's own device
		if c.Program == translatorEgress && c.Outcome == state.PassLinkScope {
			continue
		}
		if c.Program == translatorIngress {
			list, slow = append(list, slow...), nil
		}
		if n := c.Packets - was(c); n > 0 {
			list = append(list, Decision{c.Program, c.Outcome.String(), n, c.Outcome})
		}
	}
	return append(list, slow...)
}

const (
	translatorEgress  = "translator_egress"
	translatorIngress = "translator_ingress"
)

// judge returns the outcome that decided: the first that is more than passing
// the packet on; where that is the slow path's, what the slow path said. Else
// the last that passed it to the kernel.
func judge(decisions []Decision) (state.Verdict, state.Outcome) {
	last := state.OutcomeNone
	for i, d := range decisions {
		switch d.outcome.Verdict() {
		case state.Forward, state.Drop:
			return d.outcome.Verdict(), d.outcome
		case state.Slow:
			for _, later := range decisions[i:] {
				if later.Program == slowProgram {
					return coarse(later.outcome), later.outcome
				}
			}
		}
		if d.outcome != state.OutcomeNone {
			last = d.outcome
		}
	}
	return state.Pass, last
}

// coarse is the verdict of an outcome as reports have it: forward, pass, drop.
func coarse(o state.Outcome) state.Verdict {
	switch v := o.Verdict(); v {
	case state.Forward, state.Drop:
		return v
	}
	return state.Pass
}
