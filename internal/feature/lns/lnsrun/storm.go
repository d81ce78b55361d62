package lnsrun

import "runtime/debug"

// manyChanges is the number of sessions that begin or end between two looks in a storm.
const manyChanges = 1000

// stormGarbage is GOGC during a storm: garbage in percent of the memory in use. A
// session that comes up leaves several times more garbage than it keeps: with the
// default of 100, the peak of a storm is twice as high.
const stormGarbage = 40

// pace has the garbage collector run more often during a storm.
func (s *subscribers) pace() {
	if s.stormy || s.changed < manyChanges {
		return
	}
	s.stormy = true
	s.garbage = debug.SetGCPercent(stormGarbage)
	if s.garbage < stormGarbage { // the environment has set a lower GOGC
		debug.SetGCPercent(s.garbage)
	}
}

// giveBack returns memory to the system when a storm is over.
func (s *subscribers) giveBack() {
	if s.stormy && s.changed < manyChanges {
		s.stormy = false
		debug.SetGCPercent(s.garbage)
		s.tasks.Go(debug.FreeOSMemory)
	}
	s.changed = 0
}
