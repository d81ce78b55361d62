package accessrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"weft/internal/config"
	"weft/internal/feature/access"
	"weft/internal/state"
)

// accessSettings are what the sections of weft.toml say.
type accessSettings struct {
	file    *config.File
	servers []access.ServerSettings
	clients []access.ClientSettings
}

// usersFile is a users_file as it was read last without mistakes.
type usersFile struct {
	users []access.User
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

// apply gives the engine all that is known: sections, and users of files. The
// lock is held.
func (s *subscribers) apply(now time.Time) {
	servers := slices.Clone(s.settings.servers)
	for i := range servers {
		one := &servers[i]
		c := access.From(s.settings.file, one.Name)
		u := s.files[c.UsersFile]
		if u == nil {
			continue
		}
		one.Users = slices.Clone(one.Users)
		for _, user := range u.users {
			known := slices.ContainsFunc(c.Users, func(o access.User) bool { return o.Login == user.Login })
			if !known { // what weft.toml says comes first
				one.Users = append(one.Users, user)
			}
		}
	}
	s.engine.Set(servers, s.settings.clients, now)
}

// usersFiles gives the users_files of a configuration, each with its sections.
func usersFiles(f *config.File) map[string][]string {
	m := map[string][]string{}
	for _, name := range f.Names("access") {
		if file := access.From(f, name).UsersFile; file != "" {
			m[file] = append(m[file], name)
		}
	}
	return m
}

// readUsers reads the users_files that have changed, and tells whether any has.
// One with mistakes stays as it was. The lock is held.
func (s *subscribers) readUsers() (changed bool) {
	wanted := usersFiles(s.settings.file)
	for name := range s.files {
		if wanted[name] == nil {
			delete(s.files, name)
		}
	}
	for name := range wanted {
		stamp, err := stampOf(name)
		if old := s.files[name]; err == nil && old != nil && old.stamp == stamp {
			continue
		} else if old != nil && err != nil && old.stamp == (fileStamp{}) {
			continue // it was said already
		}
		u := s.files[name]
		if u == nil {
			u = &usersFile{}
			s.files[name] = u
		}
		u.stamp = stamp
		users, problems := readUsersFile(s.settings.file, name)
		for _, p := range problems {
			if p.Severity == state.Error {
				s.log.Error("users_file is not taken over", "problem", p.String())
			} else {
				s.log.Warn("users_file", "problem", p.String())
			}
		}
		if !state.HasErrors(problems) && err == nil {
			u.users, changed = users, true
			s.log.Info("users_file is read", "file", name, "users", len(users))
		}
	}
	return changed
}

const usersLook = time.Second

// followUsers takes over users_files when they change.
func (s *subscribers) followUsers(ctx context.Context) {
	tick := time.NewTicker(usersLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.readUsers() {
			s.apply(time.Now())
			s.wake()
		}
		s.mu.Unlock()
	}
}

// readUsersFile reads one, and says what is wrong with it: with the file, with
// who may read it, and with what its users name of their sections.
func readUsersFile(f *config.File, name string) ([]access.User, []state.Problem) {
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
	users, problems := access.ParseUsers(name, text)
	at := access.UserPositions(name, text)
	for _, section := range usersFiles(f)[name] {
		c := access.From(f, section)
		for n, u := range users {
			path := fmt.Sprintf("subscribers.users[%d]", n)
			for _, m := range access.Mismatches(&u, c, f.Given("access."+section+".authentication")) {
				problems = append(problems, state.Problem{Severity: m.Severity, Pos: at(n), Path: path + "." + m.Key, What: m.What + " (access." + section + ")", Remedy: m.Remedy})
			}
			if slices.ContainsFunc(c.Users, func(o access.User) bool { return o.Login == u.Login }) {
				problems = append(problems, state.Problem{Severity: state.Warning, Pos: at(n), Path: path + ".login", What: fmt.Sprintf("%q stands in access.%s too, which comes first", u.Login, section), Remedy: "keep one of the two"})
			}
		}
	}
	state.SortProblems(problems)
	return users, problems
}

// Check looks at the users_files that f names, for weft check.
func Check(f *config.File) []state.Problem {
	var all []state.Problem
	for name := range usersFiles(f) {
		_, problems := readUsersFile(f, name)
		all = append(all, problems...)
	}
	state.SortProblems(all)
	return all
}
