package lnsrun

import (
	"time"

	"weft/internal/datapath/subscribertable"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// openDatapath finds the programs' tables of subscribers. Without them all
// packets go the slow path.
func (s *subscribers) openDatapath() {
	path, err := subscribertable.Of(s.doors.Datapath).Subscribers()
	if err != nil {
		s.log.Error("subscribers' packets all go the slow path", "error", err)
		return
	}
	s.path = path
}

// sweepDatapath takes sessions out of the datapath that nobody knows any more.
func (s *subscribers) sweepDatapath() {
	if s.path == nil {
		return
	}
	tunnels, sessions, err := s.path.List()
	if err != nil {
		s.log.Error("the datapath's sessions cannot be listed", "error", err)
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
		s.log.Error("old sessions stay in the datapath", "error", err)
	}
}

// putSessions makes the programs' tables what the engine's are. What has ended passes
// nothing more from now on, and stays to be counted until it is removed.
func (s *subscribers) putSessions(t subscriber.SessionDelta) {
	if s.path == nil {
		return
	}
	s.path.Retire(t.Ended)
	if len(t.Tunnels)+len(t.Sessions) == 0 {
		return
	}
	if err := s.path.Put(t.Tunnels, t.Sessions); err != nil {
		s.log.Error("sessions cannot be written to the datapath", "error", err)
	}
}

// Number is for what the daemon itself sends of a session that the programs carry.
func (s *subscribers) Number(session uint16) (uint16, bool) {
	if s.path == nil {
		return 0, false
	}
	return s.path.Sequence(session), true
}

// removeSessions takes out what is gone, once its counters were read. Nobody has had
// its ids since.
func (s *subscribers) removeSessions(b subscriber.ChangeSet) {
	if len(b.GoneTunnels)+len(b.GoneSessions) == 0 {
		return
	}
	if s.path != nil {
		if err := s.path.Remove(b.GoneTunnels, b.GoneSessions); err != nil {
			s.log.Error("sessions cannot be taken out of the datapath", "error", err)
		}
	}
	s.engine.Left(b.GoneTunnels, b.GoneSessions)
}

// counters reads what the datapath counted of sessions.
func (s *subscribers) counters(ids []uint16) map[uint16]state.AccessCounters {
	m := map[uint16]state.AccessCounters{}
	if s.path == nil {
		return m
	}
	list, err := s.path.Counters(ids)
	if err != nil {
		s.log.Error("counters of sessions cannot be read", "error", err)
	}
	for _, c := range list {
		m[c.Local] = c
	}
	return m
}

// lookIdle is how often sessions with an idle timeout are looked at.
const lookIdle = 5 * time.Second

// lookForIdle ends sessions whose subscribers have sent nothing for too long.
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
