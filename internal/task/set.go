package task

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Stopper is what a Set holds: a Task, or what owns one.
type Stopper interface{ Stop() }

// Set keeps one thing running for each key. It belongs to one goroutine.
type Set[K cmp.Ordered, R Stopper] struct{ running map[K]R }

// Want brings the set to the wanted keys: what has no key any more is stopped,
// what stays is given to update, and what is new, or what update does not keep
// (false), is started after the old one has ended. A start that fails leaves
// its key out; the first error is returned. Keys are taken in their order.
func Want[K cmp.Ordered, W any, R Stopper](s *Set[K, R], want map[K]W, update func(R, W) bool, start func(K, W) (R, error)) (first error) {
	for _, k := range slices.Sorted(maps.Keys(s.running)) {
		if _, wanted := want[k]; !wanted {
			s.Stop(k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if r, there := s.running[k]; there {
			if update(r, want[k]) {
				continue
			}
			s.Stop(k)
		}
		r, err := start(k, want[k])
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if s.running == nil {
			s.running = map[K]R{}
		}
		s.running[k] = r
	}
	return first
}

// Get returns what runs for a key.
func (s *Set[K, R]) Get(k K) (R, bool) {
	r, ok := s.running[k]
	return r, ok
}

// Len is how many run.
func (s *Set[K, R]) Len() int { return len(s.running) }

// All returns all that run, in the order of their keys.
func (s *Set[K, R]) All() iter.Seq2[K, R] {
	return func(yield func(K, R) bool) {
		for _, k := range slices.Sorted(maps.Keys(s.running)) {
			if !yield(k, s.running[k]) {
				return
			}
		}
	}
}

// Stop stops what runs for a key, if anything does.
func (s *Set[K, R]) Stop(k K) {
	if r, ok := s.running[k]; ok {
		r.Stop()
		delete(s.running, k)
	}
}

// Close stops all.
func (s *Set[K, R]) Close() {
	for _, k := range slices.Sorted(maps.Keys(s.running)) {
		s.Stop(k)
	}
}
