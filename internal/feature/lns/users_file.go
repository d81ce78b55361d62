package lns

import (
	"fmt"
	"strings"

	"weft/internal/config"
	"weft/internal/state"
)

// usersSection is the content of a users_file.
type usersSection struct {
	Users []User `toml:"users" example:"[{ login = \"alice@example.net\", password = \"a secret\" }]" doc:"The subscribers."`
}

// UsersSection is what config.Load needs to read a users_file.
func UsersSection() config.Section {
	return config.Section{
		Name:  "subscribers",
		New:   func(string) any { return &usersSection{} },
		Check: func(c *config.Checker, _ string, s any) { checkUsers(c, s.(*usersSection).Users) },
	}
}

// UserPositions returns the position of the n-th user in a users_file.
func UserPositions(file string, text []byte) func(n int) state.Position {
	f, _ := config.Load(file, text, []config.Section{{Name: "subscribers", New: func(string) any { return &usersSection{} }}})
	return func(n int) state.Position { return f.Position(fmt.Sprintf("subscribers.users[%d]", n)) }
}

// ParseUsers parses a users_file, as strictly as weft.toml.
func ParseUsers(file string, text []byte) ([]User, []state.Problem) {
	f, problems := config.Load(file, text, []config.Section{UsersSection()})
	s, _ := f.Get("subscribers", "").(*usersSection)
	if s == nil {
		return nil, problems
	}
	return s.Users, problems
}

// bcryptHash reports whether s looks like a bcrypt hash.
func bcryptHash(s string) bool {
	return len(s) == 60 && (strings.HasPrefix(s, "$2a$") || strings.HasPrefix(s, "$2b$") || strings.HasPrefix(s, "$2y$"))
}
