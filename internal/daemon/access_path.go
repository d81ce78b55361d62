package daemon

import (
	"weft/internal/feature/access"
)

// openDatapath finds the programs' tables of subscribers. Without them all
// packets go the slow path.
func (s *subscribers) openDatapath() {
	path, err := s.router.datapath.Subscribers()
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

// tellDatapath writes a batch into the programs' tables.
func (s *subscribers) tellDatapath(b access.Batch) {
	if s.path == nil {
		return
	}
	if len(b.Tunnels)+len(b.Sessions) > 0 {
		if err := s.path.Put(b.Tunnels, b.Sessions); err != nil {
			s.log.Error("sessions cannot be written to the datapath", "error", err)
		}
	}
	if len(b.GoneTunnels)+len(b.GoneSessions) > 0 {
		if err := s.path.Remove(b.GoneTunnels, b.GoneSessions); err != nil {
			s.log.Error("sessions cannot be taken out of the datapath", "error", err)
		}
	}
}
