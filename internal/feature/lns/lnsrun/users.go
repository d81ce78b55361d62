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
	"weft/internal/subscriber"
)

// accessSettings are what the sections of weft.toml say.
type accessSettings struct {
	file    *config.File
	servers []subscriber.ServerSettings
	clients []subscriber.ClientSettings
}

// usersFile is a users_file as it was read last without mistakes.
type usersFile struct {
	users []lns.User
	stamp fileStamp // of the last look, good or bad
}

// fileStamp tells one state of a file from another.
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

// apply gives the engine all that is known: sections, and users of files.
func (s *subscribers) apply(now time.Time) {
	servers := slices.Clone(s.settings.servers)
	for i := range servers {
		one := &servers[i]
		c := lns.From(s.settings.file, one.Name)
		one.Users = slices.Clone(one.Users)
		for _, user := range s.users[c.UsersFile] {
			known := slices.ContainsFunc(c.Users, func(o lns.User) bool { return o.Login == user.Login })
			if !known { // what weft.toml says comes first
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

// namedUsersFiles gives the users_files of a configuration, each with its sections.
func namedUsersFiles(f *config.File) map[string][]string {
	m := map[string][]string{}
	for _, name := range f.Names("lns") {
		if file := lns.From(f, name).UsersFile; file != "" {
			m[file] = append(m[file], name)
		}
	}
	return m
}

// usersFiles are the users_files of a configuration, as they were read last.
type usersFiles struct {
	log   *slog.Logger
	file  *config.File // nil: there is none yet
	files map[string]*usersFile
}

// all gives the users of all files.
func (u *usersFiles) all() map[string][]lns.User {
	m := map[string][]lns.User{}
	for name, one := range u.files {
		m[name] = one.users
	}
	return m
}

// read reads the users_files that have changed, and tells whether any has.
// One with mistakes stays as it was.
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
			continue // it was said already
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
				u.log.Error("users_file is not taken over", "problem", p.String())
			} else {
				u.log.Warn("users_file", "problem", p.String())
			}
		}
		if !state.HasErrors(problems) && err == nil {
			one.users, changed = users, true
			u.log.Info("users_file is read", "file", name, "users", len(users))
		}
	}
	return changed
}

// readUsersFile reads one, and says what is wrong with it: with the file, with
// who may read it, and with what its users name of their sections.
func readUsersFile(f *config.File, name string) ([]lns.User, []state.Problem) {
	fault := func(severity state.Severity, what, remedy string) []state.Problem {
		return []state.Problem{{Severity: severity, Pos: state.Position{File: name}, What: what, Remedy: remedy}}
	}
	i, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault(state.Warning, "is not there", "make it, or take users_file out")
	}
	if err != nil {
		return nil, fault(state.Warning, err.Error(), "weft has to be able to read it")
	}
	if i.Mode().Perm()&0o004 != 0 {
		return nil, fault(state.Error, fmt.Sprintf("everybody on this host can read the passwords in it (mode %o)", i.Mode().Perm()), "chmod 600 "+name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fault(state.Warning, err.Error(), "weft has to be able to read it")
	}
	users, problems := lns.ParseUsers(name, text)
	at := lns.UserPositions(name, text)
	for _, section := range namedUsersFiles(f)[name] {
		c := lns.From(f, section)
		for n, u := range users {
			path := fmt.Sprintf("subscribers.users[%d]", n)
			for _, m := range lns.Mismatches(&u, c, f.Given("lns."+section+".authentication")) {
				problems = append(problems, state.Problem{Severity: m.Severity, Pos: at(n), Path: path + "." + m.Key, What: m.What + " (lns." + section + ")", Remedy: m.Remedy})
			}
			if slices.ContainsFunc(c.Users, func(o lns.User) bool { return o.Login == u.Login }) {
				problems = append(problems, state.Problem{Severity: state.Warning, Pos: at(n), Path: path + ".login", What: fmt.Sprintf("%q stands in lns.%s too, which comes first", u.Login, section), Remedy: "keep one of the two"})
			}
		}
	}
	state.SortProblems(problems)
	return users, problems
}

// Check looks at the users_files that f names, for weft check.
func Check(f *config.File) []state.Problem {
	var all []state.Problem
	for name := range namedUsersFiles(f) {
		_, problems := readUsersFile(f, name)
		all = append(all, problems...)
	}
	state.SortProblems(all)
	return all
}
