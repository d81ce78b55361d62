package lnsrun

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/subscriber"
)

// lnsSettings are the sections of weft.toml.
type lnsSettings struct {
	file    *config.File
	servers []subscriber.ServerSettings
	clients []subscriber.ClientSettings
}

// usersFile is the last content of a users_file without mistakes.
type usersFile struct {
	users []lns.User
	stamp fileStamp // of the last read, with or without mistakes
}

// fileStamp identifies one version of a file.
type fileStamp struct {
	inode uint64
	size  int64
	at    time.Time
}

func stampOf(name string) (fileStamp, error) {
	i, err := os.Stat(name)
	if err != nil {
		return fileStamp{}, err
	}
	s := fileStamp{size: i.Size(), at: i.ModTime()}
	if t, ok := i.Sys().(*syscall.Stat_t); ok {
		s.inode = t.Ino
	}
	return s, nil
}

// apply configures the engine with the sections and the users of the files.
func (s *subscribers) apply(now time.Time) {
	servers := slices.Clone(s.settings.servers)
	for i := range servers {
		one := &servers[i]
		c := lns.From(s.settings.file, one.Name)
		one.Users = slices.Clone(one.Users)
		for _, user := range s.users[c.UsersFile] {
			known := slices.ContainsFunc(c.Users, func(o lns.User) bool { return o.Login == user.Login })
			if !known { // a user in weft.toml takes precedence
				one.Users = append(one.Users, user.Subscriber())
			}
		}
	}
	s.engine.Set(servers, s.settings.clients, now)
}

// follow takes over users_files that have changed.
func (s *subscribers) follow(users map[string][]lns.User) {
	s.users = users
	if s.begun {
		s.apply(time.Now())
		s.settle()
	}
}

// namedUsersFiles returns the users_files of a configuration, each with its sections.
func namedUsersFiles(f *config.File) map[string][]string {
	m := map[string][]string{}
	for _, name := range f.Names("lns") {
		if file := lns.From(f, name).UsersFile; file != "" {
			m[file] = append(m[file], name)
		}
	}
	return m
}

// usersFiles are the users_files of a configuration.
type usersFiles struct {
	log   *slog.Logger
	file  *config.File // nil: none yet
	files map[string]*usersFile
}

// all returns the users of all files.
func (u *usersFiles) all() map[string][]lns.User {
	m := map[string][]lns.User{}
	for name, one := range u.files {
		m[name] = one.users
	}
	return m
}

// read reads the users_files that have changed, and reports whether any has.
// After a mistake the previous content of a file stays in force.
func (u *usersFiles) read() (changed bool) {
	if u.file == nil {
		return false
	}
	wanted := namedUsersFiles(u.file)
	for name := range u.files {
		if wanted[name] == nil {
			delete(u.files, name)
		}
	}
	for name := range wanted {
		stamp, err := stampOf(name)
		if old := u.files[name]; err == nil && old != nil && old.stamp == stamp {
			continue
		} else if old != nil && err != nil && old.stamp == (fileStamp{}) {
			continue // logged before
		}
		one := u.files[name]
		if one == nil {
			one = &usersFile{}
			u.files[name] = one
		}
		one.stamp = stamp
		users, problems := readUsersFile(u.file, name)
		for _, p := range problems {
			if p.Severity == state.Error {
				u.log.Error("users_file has a mistake; its previous content stays in force", "problem", p.String())
			} else {
				u.log.Warn("users_file", "problem", p.String())
			}
		}
		if !state.HasErrors(problems) && err == nil {
			one.users, changed = users, true
			u.log.Info("users_file read", "file", name, "users", len(users))
		}
	}
	return changed
}

// readUsersFile reads a users_file and gives its problems: of the file, of its
// permissions, and of the sections' pools that its users name.
func readUsersFile(f *config.File, name string) ([]lns.User, []state.Problem) {
	fault := func(severity state.Severity, what, remedy string) []state.Problem {
		return []state.Problem{{Severity: severity, Pos: state.Position{File: name}, What: what, Remedy: remedy}}
	}
	i, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault(state.Warning, "does not exist", "create it, or remove users_file")
	}
	if err != nil {
		return nil, fault(state.Warning, err.Error(), "make it readable for weft")
	}
	if !i.Mode().IsRegular() {
		return nil, fault(state.Error, "is no regular file ("+i.Mode().Type().String()+")", "name a file with [[subscribers]], or remove users_file")
	}
	if i.Mode().Perm()&0o004 != 0 {
		return nil, fault(state.Error, fmt.Sprintf("other users of this host can read its passwords (mode %o)", i.Mode().Perm()), "chmod 600 "+name)
	}
	text, err := statefile.Text(name)
	if err != nil {
		return nil, fault(state.Warning, err.Error(), "make it readable for weft")
	}
	users, problems := lns.ParseUsers(name, text)
	at := lns.UserPositions(name, text)
	for _, section := range namedUsersFiles(f)[name] {
		c := lns.From(f, section)
		for n, u := range users {
			path := fmt.Sprintf("subscribers.users[%d]", n)
			for _, m := range lns.Mismatches(&u, c) {
				problems = append(problems, state.Problem{Severity: m.Severity, Pos: at(n), Path: path + "." + m.Key, What: m.What + " (lns." + section + ")", Remedy: m.Remedy})
			}
			if slices.ContainsFunc(c.Users, func(o lns.User) bool { return o.Login == u.Login }) {
				problems = append(problems, state.Problem{Severity: state.Warning, Pos: at(n), Path: path + ".login", What: fmt.Sprintf("%q is also in lns.%s, which takes precedence", u.Login, section), Remedy: "keep one of the two"})
			}
		}
	}
	state.SortProblems(problems)
	return users, problems
}

// Check returns the problems of the users_files that f names, for weft check.
func Check(f *config.File) []state.Problem {
	var all []state.Problem
	for name := range namedUsersFiles(f) {
		_, problems := readUsersFile(f, name)
		all = append(all, problems...)
	}
	state.SortProblems(all)
	return all
}
