package lnsrun

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/state"
	"weft/internal/store"
	"weft/internal/store/statefile"
	"weft/internal/subscriber"
)

// disk is the state of the loop that reads and writes files: the store of sessions, what
// logins were given out of pools, the users_files, and what clients have learned. It may
// wait for the disk; the loop of the subscribers never waits for this one.
type disk struct {
	log        *slog.Logger
	dir        string
	tried      bool                   // to open the store
	store      *store.File            // nil: there is none
	leases     map[string]*store.File // what logins were given, by section
	leasePaths map[string]string
	users      usersFiles
	// changed is called when a users_file has changed; it may wait.
	changed func(users map[string][]lns.User)
}

func newDisk(log *slog.Logger, dir string) *disk {
	return &disk{log: log, dir: dir, leases: map[string]*store.File{}, leasePaths: map[string]string{}, users: usersFiles{log: log, files: map[string]*usersFile{}}}
}

func clientFile(dir string) string { return filepath.Join(dir, "l2tp.json") }

func storeFile(dir string) string { return filepath.Join(dir, "subscribers.db") }

// readClients reads what clients have learned; nothing is there after a boot.
func readClients(dir string) (map[string]state.L2TPClient, error) {
	m := map[string]state.L2TPClient{}
	if _, err := statefile.Cache(clientFile(dir), &m); err != nil {
		return m, fmt.Errorf("read what L2TP servers gave: %w", err)
	}
	return m, nil
}

// kept is what the disk has for a configuration.
type kept struct {
	store    bool                  // there is one
	sessions []subscriber.Stored   // with the first configuration: of the process before
	accounts []subscriber.Stored   // that no server has taken; likewise
	begun    map[string]bool       // sections whose RADIUS servers know that they began; likewise
	leases   []subscriber.Stored   // of files that were opened now
	users    map[string][]lns.User // by users_file
}

// open opens and reads what a configuration names.
func (d *disk) open(f *config.File) (k kept) {
	if !d.tried {
		d.tried = true
		d.openStore(&k)
	}
	k.store = d.store != nil
	k.leases = d.openLeases(f)
	d.users.file = f
	d.users.read()
	k.users = d.users.all()
	return k
}

// openStore reads what another process has kept.
func (d *disk) openStore(k *kept) {
	file, err := store.OpenFleeting(storeFile(d.dir))
	if err != nil {
		d.log.Error("sessions will not outlive this process", "error", err)
		return
	}
	if file.Damaged != nil {
		d.log.Warn("sessions and accounts of the process before are lost", "error", file.Damaged)
	}
	d.store, k.begun = file, map[string]bool{}
	err = file.Each(func(key, value []byte) error {
		one := subscriber.Stored{Key: string(key), Value: append([]byte{}, value...)}
		if name, ok := strings.CutPrefix(one.Key, begunKey); ok {
			k.begun[name] = true
		} else if strings.HasPrefix(one.Key, accountKey) {
			k.accounts = append(k.accounts, one)
		} else {
			k.sessions = append(k.sessions, one)
		}
		return nil
	})
	if err != nil {
		d.log.Error("sessions of the process before are lost", "error", err)
		k.sessions = nil
	}
}

// openLeases opens the files in which it stands what subscribers were given out of
// pools: where the section says, which may outlive a reboot, or else in the
// run directory. It gives what is in those that were not open.
func (d *disk) openLeases(f *config.File) (list []subscriber.Stored) {
	for _, name := range f.Names("lns") {
		path, open := lns.From(f, name).Leases, store.Open
		if path == "" {
			path, open = filepath.Join(d.dir, "lns-"+name+".leases"), store.OpenFleeting
		}
		if d.leasePaths[name] == path {
			continue
		}
		if old := d.leases[name]; old != nil {
			_ = old.Close()
			delete(d.leases, name)
		}
		d.leasePaths[name] = path
		file, err := open(path)
		if err != nil {
			d.log.Error("what subscribers were given is forgotten at the next start", "lns", name, "error", err)
			continue
		}
		if file.Damaged != nil {
			d.log.Warn("what subscribers were given is forgotten", "lns", name, "error", file.Damaged)
		}
		d.leases[name] = file
		err = file.Each(func(key, value []byte) error {
			list = append(list, subscriber.Stored{Key: name + "/" + string(key), Value: append([]byte{}, value...)})
			return nil
		})
		if err != nil {
			d.log.Error("what subscribers were given cannot be read", "lns", name, "error", err)
		}
	}
	return list
}

// usersLook is how often users_files are looked at.
const usersLook = time.Second

// tick takes over users_files when they change.
func (d *disk) tick() time.Duration {
	if d.users.read() {
		d.changed(d.users.all())
	}
	return usersLook
}

// save writes a change set.
func (d *disk) save(one *save) {
	d.keep(one.store)
	d.keepLeases(one.leases)
	if one.learned == nil {
		return
	}
	if err := statefile.Write(clientFile(d.dir), one.learned); err != nil {
		d.log.Error("what an L2TP server gave cannot be kept", "error", err)
		one.learned = nil
	}
}

// keep writes what has changed of sessions and accounts.
func (d *disk) keep(list []subscriber.Stored) {
	if d.store == nil || len(list) == 0 {
		return
	}
	changes := make([]store.Change, 0, len(list))
	for _, k := range list {
		changes = append(changes, store.Change{Key: []byte(k.Key), Value: k.Value})
	}
	if err := d.store.Apply(changes); err != nil {
		d.log.Error("sessions cannot be kept", "error", err)
	}
}

// keepLeases writes what has changed of leases.
func (d *disk) keepLeases(list []subscriber.Stored) {
	changes := map[string][]store.Change{}
	for _, k := range list {
		name, login, _ := strings.Cut(k.Key, "/")
		changes[name] = append(changes[name], store.Change{Key: []byte(login), Value: k.Value})
	}
	for name, c := range changes {
		if file := d.leases[name]; file == nil {
			continue
		} else if err := file.Apply(c); err != nil {
			d.log.Error("what subscribers were given cannot be kept", "lns", name, "error", err)
		}
	}
}

// close closes the files.
func (d *disk) close() {
	if d.store != nil {
		_ = d.store.Close()
	}
	for _, file := range d.leases {
		_ = file.Close()
	}
}
