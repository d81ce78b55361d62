package rig

import "testing"

func TestWorkIsToldFromWaiting(t *testing.T) {
	for _, c := range []struct {
		line      string
		busy, all uint64
		bad       bool
	}{
		{line: "cpu  10 1 20 300 40 5 6 7 0 0", busy: 49, all: 389},
		{line: "cpu  0 0 0 0 0 0 0 0", busy: 0, all: 0},
		{line: "cpu0 1 2 3 4 5 6 7 8", bad: true},
		{line: "cpu  1 2 3", bad: true},
		{line: "cpu  1 2 x 4 5 6 7 8", bad: true},
		{line: "", bad: true},
	} {
		busy, all, err := parseCPUTime(c.line)
		if (err != nil) != c.bad || busy != c.busy && !c.bad || all != c.all && !c.bad {
			t.Errorf("%q: %d of %d, %v", c.line, busy, all, err)
		}
	}
}
