package lab

import (
	"maps"
	"slices"
	"sync"
	"testing"
)

// besides is how many labs run beside each other: they wait more than they compute.
const besides = 3

// rooms are what labs wait for: go test's own bound does not know that an emulated
// processor computes all the time, so that one at once is enough.
var rooms = struct {
	sync.Mutex
	changed  *sync.Cond
	free     int
	emulated bool         // one is running
	waiting  map[int]bool // by arrival: whether it is emulated
	arrived  int
}{free: besides, waiting: map[int]bool{}}

// beside has a test run beside others; with an emulated machine in it beside those that
// have none. Emulated ones go first, because they take longest.
func beside(t *testing.T, emulated bool) {
	t.Parallel()
	r := &rooms
	r.Lock()
	defer r.Unlock()
	if r.changed == nil {
		r.changed = sync.NewCond(r)
	}
	r.arrived++
	me := r.arrived
	r.waiting[me] = emulated
	for r.free == 0 || turn() != me {
		r.changed.Wait()
	}
	delete(r.waiting, me)
	r.free--
	r.emulated = r.emulated || emulated
	r.changed.Broadcast()
	t.Cleanup(func() {
		r.Lock()
		defer r.Unlock()
		r.free++
		r.emulated = r.emulated && !emulated
		r.changed.Broadcast()
	})
}

// turn is whose turn it is: an emulated one if none is running, else the first without.
func turn() int {
	first := 0
	for _, me := range slices.Sorted(maps.Keys(rooms.waiting)) {
		emulated := rooms.waiting[me]
		if emulated && !rooms.emulated {
			return me
		}
		if !emulated && first == 0 {
			first = me
		}
	}
	return first
}
