package lnsrun

import (
	"time"

	"weft/internal/datapath/subscribertable"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// openDatapath opens the programs' tables of subscribers. Without them all packets
// take the slow path.
func (s *subscribers) openDatapath() {
	path, err := subscribertable.Of(s.doors.Datapath).Subscribers()
	if err != nil {
		s.log.Error("cannot open the datapath's tables; all packets of subscribers take the slow path", "error", err)
		return
	}
	s.path = path
}

// sweepDatapath removes tunnels and sessions from the datapath that the engine does not have.
func (s *subscribers) sweepDatapath() {
	if s.path == nil {
		return
	}
	tunnels, sessions, err := s.path.List()
	if err != nil {
		s.log.Error("cannot list the sessions in the datapath", "error", err)
		return
	}
	var goneT, goneS []uint16
	for _, t := range tunnels {
		if !s.engine.HasTunnel(t.Local) {
			goneT = append(goneT, t.Local)
		}
	}
	for _, one := range sessions {
		if !s.engine.HasSession(one.Local) {
			goneS = append(goneS, one.Local)
		}
	}
	if err := s.path.Remove(goneT, goneS); err != nil {
		s.log.Error("cannot remove old sessions from the datapath", "error", err)
	}
}

// putSessions writes changes of tunnels and sessions to the programs' tables. A session
// that has ended forwards no packets; its counters stay until it is removed.
func (s *subscribers) putSessions(t subscriber.SessionDelta) {
	if s.path == nil {
		return
	}
	s.path.Retire(t.Ended)
	if len(t.Tunnels)+len(t.Sessions) == 0 {
		return
	}
	if err := s.path.Put(t.Tunnels, t.Sessions); err != nil {
		s.log.Error("cannot write sessions to the datapath", "error", err)
	}
}

// Number returns the sequence number for a packet that the daemon itself sends on a
// session which the programs forward.
func (s *subscribers) Number(session uint16) (uint16, bool) {
	if s.path == nil {
		return 0, false
	}
	return s.path.Sequence(session), true
}

// removeSessions removes tunnels and sessions that have ended, after their counters
// were read. Their ids have not been used again until now.
func (s *subscribers) removeSessions(b subscriber.ChangeSet) {
	if len(b.GoneTunnels)+len(b.GoneSessions) == 0 {
		return
	}
	if s.path != nil {
		if err := s.path.Remove(b.GoneTunnels, b.GoneSessions); err != nil {
			s.log.Error("cannot remove sessions from the datapath", "error", err)
		}
	}
	s.engine.Left(b.GoneTunnels, b.GoneSessions)
}

// counters reads the datapath's counters of sessions.
func (s *subscribers) counters(ids []uint16) map[uint16]state.LNSCounters {
	m := map[uint16]state.LNSCounters{}
	if s.path == nil {
		return m
	}
	list, err := s.path.Counters(ids)
	if err != nil {
		s.log.Error("cannot read the counters of sessions", "error", err)
	}
	for _, c := range list {
		m[c.Local] = c
	}
	return m
}

// lookIdle is the interval of the check for idle sessions.
const lookIdle = 5 * time.Second

// lookForIdle ends sessions whose idle timeout has passed.
func (s *subscribers) lookForIdle() {
	ids := s.engine.Idling()
	if len(ids) == 0 {
		return
	}
	counted := s.counters(ids)
	for _, id := range ids {
		s.engine.Silent(id, counted[id].UpPackets, time.Now())
	}
}

// sessionTables are the sessions of the datapath.
type sessionTables interface {
	// Put adds or changes, in one batch. A changed session keeps its counters.
	Put(tunnels []state.L2TPTunnel, sessions []state.L2TPSession) error
	// Retire has nothing pass any more from or to sessions. Their counters stay.
	Retire(sessions []uint16)
	// Remove takes sessions and tunnels by local id; what is not there is no error.
	Remove(tunnels, sessions []uint16) error
	// Counters reads those sessions' counters; nil: of all that are there.
	Counters(sessions []uint16) ([]state.LNSCounters, error)
	// Sequence takes the next sequence number of a session's data.
	Sequence(session uint16) uint16
	// List gives what is there.
	List() ([]state.L2TPTunnel, []state.L2TPSession, error)
}
