package accessrun

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/feature/access"
	"weft/internal/store"
)

func (s *subscribers) storeFile() string { return filepath.Join(s.dir, "subscribers.db") }

// restore takes over what another process has kept.
func (s *subscribers) restore(ctx context.Context, now time.Time) {
	file, err := store.OpenFleeting(s.storeFile())
	if err != nil {
		s.log.Error("sessions will not outlive this process", "error", err)
		return
	}
	s.store = file
	var list, untold []access.Stored
	s.begunHere = map[string]bool{}
	err = file.Each(func(key, value []byte) error {
		if name, ok := strings.CutPrefix(string(key), begunKey); ok {
			s.begunHere[name] = true
			return nil
		}
		if strings.HasPrefix(string(key), accountKey) {
			untold = append(untold, access.Stored{Key: string(key), Value: append([]byte{}, value...)})
			return nil
		}
		list = append(list, access.Stored{Key: string(key), Value: append([]byte{}, value...)})
		return nil
	})
	if err == nil {
		err = s.engine.Restore(list, now)
	}
	if err != nil {
		s.log.Error("sessions of the process before are lost", "error", err)
	}
	if len(list) > 0 { // sessions go on: nothing has begun anew
		for name := range s.accounts.clients {
			s.begunHere[name] = true
		}
	}
	s.resumeAccounts(ctx, untold)
	for a := range s.engine.Addresses() {
		if s.sockets[a] == nil {
			if err := s.open(ctx, a); err != nil {
				s.log.Error("a tunnel's address is taken", "error", err)
			}
		}
	}
	s.learned = map[string]access.Learned{}
	maps.Copy(s.learned, s.engine.Learned())
	s.sweepDatapath()
}

// keep writes what has changed.
func (s *subscribers) keep(list []access.Stored) {
	if s.store == nil || len(list) == 0 {
		return
	}
	changes := make([]store.Change, 0, len(list))
	for _, k := range list {
		changes = append(changes, store.Change{Key: []byte(k.Key), Value: k.Value})
	}
	if err := s.store.Apply(changes); err != nil {
		s.log.Error("sessions cannot be kept", "error", err)
	}
}
