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

// disk is the state of the loop that reads and writes files: the store of sessions, the
// leases of the pools, the users_files, and what clients have learned. It may wait for
// the disk; the loop of the subscribers never waits for this one.
type disk struct {
	log        *slog.Logger
	dir        string
	tried      bool                   // to open the store
	store      *store.File            // nil: there is none
	leases     map[string]*store.File // by section
	leasePaths map[string]string
	users      usersFiles
	// changed is called when a users_file has changed; it may block.
	changed func(users map[string][]lns.User)
}

func newDisk(log *slog.Logger, dir string) *disk {
	return &disk{log: log, dir: dir, leases: map[string]*store.File{}, leasePaths: map[string]string{}, users: usersFiles{log: log, files: map[string]*usersFile{}}}
}

func clientFile(dir string) string { return filepath.Join(dir, "l2tp.json") }

func storeFile(dir string) string { return filepath.Join(dir, "subscribers.db") }

// readClients reads what clients have learned from their servers; the file is absent after a boot.
func readClients(dir string) (map[string]state.L2TPClient, error) {
	m := map[string]state.L2TPClient{}
	if _, err := statefile.Cache(clientFile(dir), &m); err != nil {
		return m, fmt.Errorf("read the state of L2TP clients: %w", err)
	}
	return m, nil
}

// kept is what the files hold for a configuration.
type kept struct {
	store    bool                  // it is open
	sessions []subscriber.Stored   // of the previous process; with the first configuration only
	accounts []subscriber.Stored   // records without acknowledgement; likewise
	begun    map[string]bool       // sections that have sent Accounting-On; likewise
	leases   []subscriber.Stored   // of files that this call has opened
	users    map[string][]lns.User // by users_file
}

// open opens and reads the files of a configuration.
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

// openStore reads the sessions and records of the previous process.
func (d *disk) openStore(k *kept) {
	file, err := store.OpenFleeting(storeFile(d.dir))
	if err != nil {
		d.log.Error("cannot open the store of sessions; sessions will end with this process", "error", err)
		return
	}
	if file.Damaged != nil {
		d.log.Warn("the store of sessions was damaged; sessions and accounting records of the previous process are lost", "error", file.Damaged)
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
		d.log.Error("cannot read the store of sessions; sessions of the previous process are lost", "error", err)
		k.sessions = nil
	}
}

// openLeases opens the files with the leases of the pools: the section's leases file,
// which may outlive a reboot, or one in the run directory. It gives the leases of the
// files that it has opened.
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
			d.log.Error("cannot open the leases file; a restart forgets the subscribers' addresses", "lns", name, "error", err)
			continue
		}
		if file.Damaged != nil {
			d.log.Warn("the leases file was damaged; the subscribers' addresses are forgotten", "lns", name, "error", file.Damaged)
		}
		d.leases[name] = file
		err = file.Each(func(key, value []byte) error {
			list = append(list, subscriber.Stored{Key: name + "/" + string(key), Value: append([]byte{}, value...)})
			return nil
		})
		if err != nil {
			d.log.Error("cannot read the leases file", "lns", name, "error", err)
		}
	}
	return list
}

// usersLook is the interval of the check for changed users_files.
const usersLook = time.Second

// tick reads users_files that have changed.
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
		d.log.Error("cannot save the state of L2TP clients", "error", err)
		one.learned = nil
	}
}

// keep writes changes of sessions and accounting records.
func (d *disk) keep(list []subscriber.Stored) {
	if d.store == nil || len(list) == 0 {
		return
	}
	changes := make([]store.Change, 0, len(list))
	for _, k := range list {
		changes = append(changes, store.Change{Key: []byte(k.Key), Value: k.Value})
	}
	if err := d.store.Apply(changes); err != nil {
		d.log.Error("cannot save sessions", "error", err)
	}
}

// keepLeases writes changes of leases.
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
			d.log.Error("cannot save leases", "lns", name, "error", err)
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
