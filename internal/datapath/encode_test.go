package datapath

import (
	"testing"
)

// The counters' rows are read by the program's place in the list.
func TestProgramsStandInTheOrderOfTheC(t *testing.T) {
	list := programs()
	if len(list) != programCount {
		t.Errorf("there are %d programs in Go, %d in C", len(list), programCount)
	}
	for _, p := range list {
		spec, err := p.spec()
		if err != nil {
			t.Fatal(err)
		}
		if spec.Programs[p.name] == nil {
			t.Errorf("the object that is in the place of %s has no function of that name", p.name)
		}
	}
}
