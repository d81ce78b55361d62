package state

import "fmt"

// Op is what a step does to an object.
type Op string

const (
	Add    Op = "add"
	Change Op = "change"
	Remove Op = "remove"
)

// Step is one change from the actual towards the desired state.
type Step struct {
	Op     Op
	Object Object // what must be; for Remove, what is
	Was    Object // what is, for Change
}

func (s Step) String() string {
	if s.Op == Change {
		return fmt.Sprintf("change  %s\n   was  %s", s.Object, s.Was)
	}
	return fmt.Sprintf("%-7s %s", s.Op, s.Object)
}
