package lns

import (
	"testing"
)

// FuzzUsers: a users_file is read, or all that is wrong with it is said.
func FuzzUsers(f *testing.F) {
	f.Add([]byte("[[subscribers.users]]\nlogin = \"alice@example.net\"\npassword = \"wonderland\"\n"))
	f.Add([]byte("[subscribers]\nusers = [{ login = \"a\", password_hash = \"$2y$10$\", ipv4 = \"203.0.113.5\" }]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, problems := ParseUsers("members.toml", text)
		at := UserPositions("members.toml", text)
		for i, u := range users {
			_ = at(i)
			if len(problems) == 0 && (u.Login == "" || u.Password == "" && u.Hash == "") {
				t.Fatalf("user %d is %+v, and nothing is wrong", i, u)
			}
		}
	})
}
