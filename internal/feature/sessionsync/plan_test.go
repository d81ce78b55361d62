package sessionsync_test

import (
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/sessionsync"
)

const section = `[session_sync]
name = "left"
peers = [{ name = "right", address = "192.0.2.2:4222" }]
listen = "127.0.0.1:4222"
password_file = "secret"
`

func load(t *testing.T, text string) *config.File {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(text), sections())
	for _, p := range problems {
		t.Error(p)
	}
	return f
}

func TestOnlyWhatHasSessionsIsShared(t *testing.T) {
	const two = `
[interface.lan]
[nat64.one]
mode = "stateful"
interfaces = ["lan"]
prefix = "64:ff9b:1::/96"
pools = [{ ipv4 = "192.0.2.1" }]
[nat64.two]
mode = "stateless"
interfaces = ["lan"]
prefix = "2001:db8:64::/96"
mappings = [{ ipv6 = "2001:db8::1", ipv4 = "203.0.113.1" }]
`
	for name, c := range map[string]struct {
		text     string
		sharable []string
		shared   []string
		problem  string
	}{
		"no section":           {two, []string{"one"}, nil, ""},
		"all that are":         {section + two, []string{"one"}, []string{"one"}, ""},
		"one that is not":      {section + "translators = [\"one\", \"two\"]" + two, []string{"one"}, []string{"one", "two"}, "nat64.two is not stateful"},
		"nothing to be shared": {section, nil, nil, "there is no stateful translator"},
	} {
		f := load(t, c.text)
		if got := sessionsync.Shared(f, c.sharable); !slices.Equal(got, c.shared) {
			t.Errorf("%s: shared %v, want %v", name, got, c.shared)
		}
		problems := sessionsync.Plan(f, c.sharable)
		if (len(problems) == 0) != (c.problem == "") || c.problem != "" && !strings.Contains(problems[0].String(), c.problem) {
			t.Errorf("%s: problems %v, want %q", name, problems, c.problem)
		}
	}
}
