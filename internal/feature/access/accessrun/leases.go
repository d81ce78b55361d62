package accessrun

import (
	"path/filepath"
	"strings"

	"weft/internal/config"
	"weft/internal/feature/access"
	"weft/internal/store"
)

// setLeases opens the files in which it stands what subscribers were given out of
// pools: where the section says, which may outlive a reboot, or else in the
// run directory. The lock is held.
func (s *subscribers) setLeases(f *config.File) {
	for _, name := range f.Names("access") {
		path, open := access.From(f, name).Leases, store.Open
		if path == "" {
			path, open = filepath.Join(s.dir, "access-"+name+".leases"), store.OpenFleeting
		}
		if s.leasePaths[name] == path {
			continue
		}
		if old := s.leases[name]; old != nil {
			_ = old.Close()
			delete(s.leases, name)
		}
		s.leasePaths[name] = path
		file, err := open(path)
		if err != nil {
			s.log.Error("what subscribers were given is forgotten at the next start", "access", name, "error", err)
			continue
		}
		s.leases[name] = file
		var list []access.Stored
		err = file.Each(func(key, value []byte) error {
			list = append(list, access.Stored{Key: name + "/" + string(key), Value: append([]byte{}, value...)})
			return nil
		})
		if err != nil {
			s.log.Error("what subscribers were given cannot be read", "access", name, "error", err)
		}
		s.engine.RestoreLeases(list)
	}
}

// keepLeases writes what has changed.
func (s *subscribers) keepLeases(list []access.Stored) {
	changes := map[string][]store.Change{}
	for _, k := range list {
		name, login, _ := strings.Cut(k.Key, "/")
		changes[name] = append(changes[name], store.Change{Key: []byte(login), Value: k.Value})
	}
	for name, c := range changes {
		s.mu.Lock()
		file := s.leases[name]
		s.mu.Unlock()
		if file == nil {
			continue
		}
		if err := file.Apply(c); err != nil {
			s.log.Error("what subscribers were given cannot be kept", "access", name, "error", err)
		}
	}
}
