package subscriber

import (
	"maps"
	"slices"
	"time"
)

// Frame is a frame of PPP of a session that is captured, as the daemon
// itself sends and receives it. What the programs carry comes from them.
type Frame struct {
	At      time.Time
	Session uint16
	Up      bool   // from the subscriber
	PPP     []byte // good until the callback returns
}

// watch is a capture of all frames of some sessions.
type watch struct {
	match Match
	sink  func(Frame)
}

// Watch gives frames of the sessions that fit to sink, which must not call
// back, until Unwatch. Sessions that come later are found as soon as they are
// known to fit. It gives the number of the watch, and the sessions of now.
func (e *Engine) Watch(m Match, sink func(Frame), now time.Time) (id int, sessions []uint16) {
	e.clock.Set(now)
	if e.watches == nil {
		e.watches = map[int]*watch{}
	}
	for id = 1; e.watches[id] != nil; id++ {
	}
	e.watches[id] = &watch{m, sink}
	for _, s := range e.find(m) {
		e.rewatch(s)
		sessions = append(sessions, s.local)
	}
	return id, sessions
}

// Unwatch ends it.
func (e *Engine) Unwatch(id int, now time.Time) {
	e.clock.Set(now)
	w := e.watches[id]
	if w == nil {
		return
	}
	delete(e.watches, id)
	for _, s := range e.sessions {
		if s.watch != nil {
			e.rewatch(s)
		}
	}
}

// Watched reports whether a watch is about a session.
func (e *Engine) Watched(id int, local uint16) bool {
	w, s := e.watches[id], e.sessions[local]
	return w != nil && s != nil && s.fits(w.match)
}

// rewatch finds out who watches a session.
func (e *Engine) rewatch(s *session) {
	if len(e.watches) == 0 && s.watch == nil {
		return
	}
	var sinks []func(Frame)
	for _, id := range slices.Sorted(maps.Keys(e.watches)) {
		if w := e.watches[id]; s.fits(w.match) {
			sinks = append(sinks, w.sink)
		}
	}
	was := s.watch != nil
	s.watch = nil
	if len(sinks) > 0 {
		s.watch = func(f Frame) {
			for _, sink := range sinks {
				sink(f)
			}
		}
	}
	if was != (s.watch != nil) && s.carried() {
		e.pending.sessions[s.local] = true
	}
}
