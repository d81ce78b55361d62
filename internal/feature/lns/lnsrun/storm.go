package lnsrun

import "runtime/debug"

// manyChanges is a storm: so many sessions came or went between two looks.
const manyChanges = 1000

// stormGarbage is how much garbage there may be in a storm, in percent of what is in
// use (GOGC). What each session leaves on its way up is several times what it keeps:
// with the usual 100 a storm's peak is twice what it has to be.
const stormGarbage = 40

// pace has memory swept up more often as long as a storm lasts.
func (s *subscribers) pace() {
	if s.stormy || s.changed < manyChanges {
		return
	}
	s.stormy = true
	s.garbage = debug.SetGCPercent(stormGarbage)
	if s.garbage < stormGarbage { // somebody wants it so
		debug.SetGCPercent(s.garbage)
	}
}

// giveBack returns the memory that a storm took, once it is over.
func (s *subscribers) giveBack() {
	if s.stormy && s.changed < manyChanges {
		s.stormy = false
		debug.SetGCPercent(s.garbage)
		s.tasks.Go(debug.FreeOSMemory)
	}
	s.changed = 0
}
