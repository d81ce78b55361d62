package simulate

import "weft/schedule"

// logSent notes new data that some paths have carried and the others should.
func (m *Simulation) logSent(set schedule.PathSet, x data) {
	log := &m.sender.log
	n := log.hi
	log.extend(n)
	*log.at(n) = x
	for ; set != 0; set &= set - 1 {
		if p := &m.paths[set.First()]; p.cursor == n {
			p.cursor = n + 1
		}
	}
}

// repeat sends, on each path with room, data that is not acknowledged and that the
// path has not carried yet.
func (m *Simulation) repeat() {
	log := &m.sender.log
	for log.lo < log.hi && m.needed(*log.at(log.lo)) == nil {
		log.lo++
	}
	for i := range m.paths {
		p := &m.paths[i]
		p.cursor = max(p.cursor, log.lo)
		for p.cursor < log.hi && m.sender.view.Paths[i].Room(m.setup.MSS) {
			x := *log.at(p.cursor)
			p.cursor++
			if s := m.needed(x); s != nil {
				m.copies(schedule.Only(i), s, x, true)
			}
		}
	}
}

// needed returns the stream of a segment that is not acknowledged, else nil.
func (m *Simulation) needed(x data) *stream {
	s := m.streams.find(x)
	if s == nil || uint64(x.segment) < s.state.lo || *s.state.at(uint64(x.segment))&segAcked != 0 {
		return nil
	}
	return s
}
