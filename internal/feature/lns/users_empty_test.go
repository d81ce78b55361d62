package lns

import (
	"strings"
	"testing"
)

// A user without a login is refused, in whatever way the login is not there.
func TestAUserWithoutALoginIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "[subscribers]\nusers = [{ login = \"\", password = \"x\" }]\n",
		"empty, second": "[[subscribers.users]]\nlogin = \"a\"\npassword = \"x\"\n[[subscribers.users]]\nlogin = \"\"\npassword = \"y\"\n",
		"empty, hash":   "[subscribers]\nusers = [{ login = \"\", password_hash = \"$2y$10$abcdefghijklmnopqrstuuK3GJ5TGzSpbGPHIhIQbSjrBlrDQGyT6\" }]\n",
		"missing":       "[subscribers]\nusers = [{ password = \"x\" }]\n",
		"a number":      "[subscribers]\nusers = [{ login = 7, password = \"x\" }]\n",
	} {
		_, problems := ParseUsers("members.toml", []byte(text))
		if len(problems) != 1 || !strings.Contains(problems[0].Path, "login") && !strings.Contains(problems[0].What, "login") {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}
