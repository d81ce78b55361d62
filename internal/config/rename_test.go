package config_test

import (
	"strings"
	"testing"

	"weft/internal/config"
)

// lanes is a section whose name, and some of whose keys, have changed.
type lanes struct {
	Bypass bool   `toml:"bypass" was:"shortcut" doc:"."`
	Device string `toml:"device" doc:"."`
	Peers  []lane `toml:"peers" was:"others" doc:"."`
}

type lane struct {
	Rate int    `toml:"rate_up" was:"up" doc:"."`
	Name string `toml:"name" also:"id" doc:"."`
}

func renamedSections() []config.Section {
	made := func(string) any { return &lanes{} }
	return []config.Section{
		{Name: "lanes", Was: "roads", Named: true, Doc: ".", New: made},
		{Name: "sync", Was: "sharing", Doc: ".", New: made},
	}
}

const earlierFile = `# [roads.main] and its shortcut
[roads.main] # shortcut
shortcut =   true
"others" = [
  { up = 1, name = "up" }, # up
  {name="shortcut",up=2}
]
device = "roads-main"

[[roads.second.others]]
up = 3

[sharing]
device = 'roads-main'
others.up = 1
unknown = { up = 1 }
`

func TestEarlierNamesBecomePresentOnesAndNothingElseChanges(t *testing.T) {
	want := `# [roads.main] and its shortcut
[lanes.main] # shortcut
bypass =   true
peers = [
  { rate_up = 1, name = "up" }, # up
  {name="shortcut",rate_up=2}
]
device = "lanes-main"

[[lanes.second.peers]]
rate_up = 3

[sync]
device = "lanes-main"
peers.rate_up = 1
unknown = { up = 1 }
`
	for _, mark := range []string{"", "\ufeff"} {
		got, remarks, ok := config.Modernise("weft.toml", []byte(mark+earlierFile), renamedSections())
		if !ok || string(got) != mark+want {
			t.Errorf("%v:\n%s", ok, got)
		}
		var lines []string
		for _, r := range remarks {
			lines = append(lines, r.String())
		}
		all := strings.Join(lines, "\n")
		for _, line := range []string{
			"weft.toml:2:2: warning: roads.main: [roads.main] is now [lanes.main]",
			"weft.toml:3:1: warning: lanes.main.shortcut: is now bypass",
			"weft.toml:4:1: warning: lanes.main.others: is now peers",
			"weft.toml:6:20: warning: lanes.main.peers[1].up: is now rate_up",
			"weft.toml:8:10: warning: lanes.main.device: the device roads-main is now lanes-main",
			"weft.toml:13:2: warning: sharing: [sharing] is now [sync]",
		} {
			if !strings.Contains(all, line) {
				t.Errorf("no remark %q in\n%s", line, all)
			}
		}
		again, more, ok := config.Modernise("weft.toml", got, renamedSections())
		if !ok || string(again) != string(got) || len(more) != 0 {
			t.Errorf("a file with present names changes: %v\n%s", more, again)
		}
	}
}

func TestAFileThatIsNoTOMLIsNotRewritten(t *testing.T) {
	if _, _, ok := config.Modernise("weft.toml", []byte("[roads.main]\nshortcut = \n"), renamedSections()); ok {
		t.Error("it is")
	}
}

func TestEarlierNamesAreErrorsThatGiveThePresentOnes(t *testing.T) {
	_, problems := config.Load("weft.toml", []byte("[roads.main]\nshortcut = true\nmute = 1\n[[roads.second.peers]]\nup = 1\nid = 2\n[sharing]\nshortcut = 1\n"), renamedSections())
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	hint := " (weft import weft FILE prints the file with today's names)"
	want := []string{
		"weft.toml:1:8: error: roads.main: [roads.main] is now [lanes.main]" + hint,
		"weft.toml:2:1: error: lanes.main.shortcut: is now bypass" + hint,
		"weft.toml:3:1: error: lanes.main.mute: is not a key that weft knows (one of bypass, device, peers)",
		"weft.toml:4:9: error: roads.second: [roads.second] is now [lanes.second]" + hint,
		"weft.toml:5:1: error: lanes.second.peers[0].up: is now rate_up" + hint,
		"weft.toml:6:1: error: lanes.second.peers[0].id: is not a key that weft knows (it is called name here)",
		"weft.toml:6:6: error: lanes.second.peers[0].id: is a whole number, must be a string (write id = \"2\")",
		"weft.toml:7:2: error: sharing: [sharing] is now [sync]" + hint,
		"weft.toml:8:1: error: sync.shortcut: is now bypass" + hint,
		"weft.toml:8:12: error: sync.shortcut: is a whole number, must be true or false (write shortcut = true)",
	}
	if got, want := strings.Join(lines, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
