package lns

import (
	"math"
	"testing"
	"time"
)

func TestAServerIsChargedWithWhatItForwards(t *testing.T) {
	before := work{threads: time.Second, process: time.Second, received: 1000}
	for name, c := range map[string]struct {
		after work
		came  uint64
		want  float64
	}{
		"programs in the threads": {work{threads: 2 * time.Second, process: time.Second, received: 2001000}, 2000000, 2},
		"a process drops half":    {work{threads: 2 * time.Second, process: 3 * time.Second, received: 2001000}, 1000000, 0.4},
		"nothing is parted":       {work{process: 2 * time.Second, threads: time.Second, received: 1000}, 500000, 0.5},
	} {
		if got := c.after.rate(before, c.came); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, not %g", name, got, c.want)
		}
	}
}
