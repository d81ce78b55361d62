package lnsrun

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/feature/ra"
	"weft/internal/paths"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/subscriber"
)

func withUsersFile(t *testing.T, more, users string, mode os.FileMode) (*config.File, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "members.toml")
	writeUsers(t, name, users, mode)
	f, problems := parse([]byte(`
[interface.wan]
[lns.isp]
listen = ["192.0.2.1"]
lacs = [{ address = "198.51.100.0/24" }]
users_file = "` + name + `"
pools = [{ name = "homes", addresses = ["203.0.113.0/24"] }]
` + more))
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	return f, name
}

func writeUsers(t *testing.T, name, users string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name+".new", mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestMistakesInAUsersFileAreToldWithTheirLine(t *testing.T) {
	for _, c := range []struct {
		name, more, users string
		mode              os.FileMode
		want              string // after the file's name; empty: all is right
	}{
		{"right", "", "[[subscribers.users]]\nlogin = \"a\"\npassword = \"x\"\n", 0o600, ""},
		{"right, in one list", "", "[subscribers]\nusers = [{ login = \"a\", password = \"x\", pool = \"homes\" }]\n", 0o640, ""},
		{"empty", "", "", 0o600, ""},
		{"a key that is not known", "", "[[subscribers.users]]\nlogin = \"a\"\npasword = \"x\"\n", 0o600, ":3:1: error: subscribers.users[0].pasword: is not a key"},
		{"no TOML", "", "[[subscribers.users]]\nlogin = \"a\n", 0o600, ":2:"},
		{"a login twice", "", "[subscribers]\nusers = [\n{ login = \"a\", password = \"x\" },\n{ login = \"a\", password = \"y\" },\n]\n", 0o600, ":4:11: error: subscribers.users[1].login: \"a\" is also users[0]"},
		{"no password", "", "[[subscribers.users]]\nlogin = \"a\"\n", 0o600, "has neither password nor password_hash"},
		{"no such pool", "", "\n[[subscribers.users]]\nlogin = \"a\"\npassword = \"x\"\npool = \"hoems\"\n", 0o600, "there is no pool \"hoems\""},
		{"no hash", "authentication = [\"pap\"]\n", "[[subscribers.users]]\nlogin = \"a\"\npassword_hash = \"secret\"\n", 0o600, ":3:17: error: subscribers.users[0].password_hash: is not a bcrypt hash"},
		{"a hash and CHAP only", "authentication = [\"chap\"]\n", "[[subscribers.users]]\nlogin = \"a\"\npassword_hash = \"$2y$10$" + strings.Repeat("a", 53) + "\"\n", 0o600, "authentication has no pap"},
		{"known in weft.toml", "users = [{ login = \"a\", password = \"y\" }]\n", "[[subscribers.users]]\nlogin = \"a\"\npassword = \"x\"\n", 0o600, "is also in lns.isp"},
		{"other users may read it", "", "", 0o644, ": error: other users of this host can read its passwords (mode 644) (chmod 600"},
	} {
		f, name := withUsersFile(t, c.more, c.users, c.mode)
		var said []string
		for _, p := range Check(f) {
			said = append(said, p.String())
		}
		all := strings.Join(said, "\n")
		if c.want == "" && all != "" || !strings.Contains(all, c.want) || c.want != "" && !strings.HasPrefix(all, name) {
			t.Errorf("%s: it says %q, want %q", c.name, all, c.want)
		}
	}
}

// The file is followed: who is new can log in, mistakes change nothing.
func TestAUsersFileIsFollowed(t *testing.T) {
	f, name := withUsersFile(t, "", "[[subscribers.users]]\nlogin = \"alice\"\npassword = \"x\"\n", 0o600)
	s := newSubscribers(t.Context(), runner.Doors{Log: slog.New(slog.DiscardHandler), Paths: paths.Dirs{Run: t.TempDir()}, Replan: func() {}}, ra.Links{})
	servers, clients := lns.Settings(f, state.Facts{})
	s.settings, s.begun = lnsSettings{f, servers, clients}, true
	files := newDisk(s.log, t.TempDir())
	files.users.file = f
	logins := func() string {
		var list []string
		for _, u := range files.users.files[name].users {
			list = append(list, u.Login)
		}
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		name, users, want string
		mode              os.FileMode
		changed           bool
	}{
		{"at first", "[[subscribers.users]]\nlogin = \"alice\"\npassword = \"x\"\n", "alice", 0o600, true},
		{"one more", "[[subscribers.users]]\nlogin = \"alice\"\npassword = \"x\"\n[[subscribers.users]]\nlogin = \"bob\"\npassword = \"x\"\n", "alice bob", 0o600, true},
		{"half a file", "[[subscribers.users]]\nlogin = \"al", "alice bob", 0o600, false},
		{"for everybody to read", "[[subscribers.users]]\nlogin = \"eve\"\npassword = \"x\"\n", "alice bob", 0o666, false},
		{"right again", "[[subscribers.users]]\nlogin = \"carol\"\npassword = \"x\"\n", "carol", 0o600, true},
	} {
		writeUsers(t, name, c.users, c.mode)
		if changed := files.users.read(); changed != c.changed || logins() != c.want {
			t.Errorf("%s: changed %v, known are %q, want %q", c.name, changed, logins(), c.want)
		}
		if files.users.read() {
			t.Errorf("%s: it is read again and again", c.name)
		}
		s.follow(files.users.all())
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if files.users.read() || logins() != "carol" {
		t.Errorf("the file is gone, and known are %q", logins())
	}
}

func TestAHashIsComparedWithThePassword(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("wonderland"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	q := subscriber.AuthRequest{Hash: string(hash), Profile: &subscriber.Profile{IPv4: netip.MustParseAddr("203.0.113.5")}}
	q.Password = "wonderland"
	if v := comparePassword(q); !v.Accept || v.Profile.IPv4 != q.Profile.IPv4 {
		t.Errorf("the right password: %+v", v)
	}
	for _, wrong := range []string{"", "wonderlan", "wonderland ", string(hash)} {
		q.Password = wrong
		if v := comparePassword(q); v.Accept {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
