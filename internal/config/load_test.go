package config_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/config"
	"weft/internal/state"
)

// everything has a field of each type that a section may use.
type everything struct {
	Text     string           `toml:"text"`
	Truth    bool             `toml:"truth"`
	Small    uint8            `toml:"small"`
	Large    int64            `toml:"large"`
	Unsigned uint64           `toml:"unsigned"`
	Wait     time.Duration    `toml:"wait" min:"1s" max:"1h"`
	Address  netip.Addr       `toml:"address"`
	Prefix   netip.Prefix     `toml:"prefix"`
	Bare     netip.Prefix     `toml:"bare" ip:"4,bare"`
	Listen   netip.AddrPort   `toml:"listen"`
	Numbers  []int            `toml:"numbers"`
	Lists    [][]string       `toml:"lists"`
	Inner    inner            `toml:"inner"`
	Inners   []inner          `toml:"inners"`
	Level    config.Log       `toml:"level" enum:"debug,info"`
	Levels   []config.Log     `toml:"levels" enum:"debug,info"`
	Waits    []time.Duration  `toml:"waits"`
	Ports    []netip.AddrPort `toml:"ports"`
	unread   int
}

type inner struct {
	Count int    `toml:"count" min:"1" required:"true"`
	Name  string `toml:"name"`
}

func testSections() []config.Section {
	return append(config.CoreSections(),
		config.Section{Name: "all", New: func(string) any { return &everything{Text: "default", unread: 1} }},
		config.Section{Name: "each", Named: true, New: func(name string) any { return &inner{Name: name} }},
	)
}

func load(t *testing.T, text string) *config.File {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(text), testSections())
	for _, p := range problems {
		t.Error(p)
	}
	return f
}

func TestEveryTypeIsRead(t *testing.T) {
	f := load(t, `
[all]
text = 'plain "text"'
truth = true
small = 0xff
large = -9_223_372_036_854_775_808
unsigned = 9223372036854775807
wait = "1m30s"
address = "2001:db8::1"
prefix = "2001:db8::/32"
bare = "192.0.2.1"
listen = "[::1]:80"
numbers = [1, 0b10, 0o3]
lists = [["a", "b"], [], ["c"]]
inner = { count = 1, name = "x" }
level = "debug"
levels = ["info", "debug"]
waits = ["1s", "2ms"]
ports = ["127.0.0.1:1"]
[[all.inners]]
count = 2
[[all.inners]]
count = 3
name = "three"
`)
	got := f.Get("all", "").(*everything)
	checks := map[string]bool{
		"text":     got.Text == `plain "text"`,
		"truth":    got.Truth,
		"small":    got.Small == 255,
		"large":    got.Large == -1<<63,
		"unsigned": got.Unsigned == 1<<63-1,
		"wait":     got.Wait == 90*time.Second,
		"address":  got.Address == netip.MustParseAddr("2001:db8::1"),
		"prefix":   got.Prefix == netip.MustParsePrefix("2001:db8::/32"),
		"bare":     got.Bare == netip.MustParsePrefix("192.0.2.1/32"),
		"listen":   got.Listen == netip.MustParseAddrPort("[::1]:80"),
		"numbers":  slices.Equal(got.Numbers, []int{1, 2, 3}),
		"lists":    len(got.Lists) == 3 && slices.Equal(got.Lists[0], []string{"a", "b"}) && len(got.Lists[1]) == 0,
		"inner":    got.Inner == inner{1, "x"},
		"inners":   slices.Equal(got.Inners, []inner{{2, ""}, {3, "three"}}),
		"level":    got.Level == config.LogDebug,
		"levels":   slices.Equal(got.Levels, []config.Log{config.LogInfo, config.LogDebug}),
		"waits":    slices.Equal(got.Waits, []time.Duration{time.Second, 2 * time.Millisecond}),
		"ports":    slices.Equal(got.Ports, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}),
	}
	for name, ok := range checks {
		if !ok {
			t.Errorf("%s was read wrong: %+v", name, got)
		}
	}
}

func TestWithoutATextThereAreDefaults(t *testing.T) {
	f := load(t, "")
	if r := f.Router(); r.Name != "weft" || !r.Forwarding || r.Log != config.LogInfo {
		t.Errorf("router is %+v", r)
	}
	if f.Metrics().Listen.IsValid() {
		t.Errorf("metrics listen on %s", f.Metrics().Listen)
	}
	if f.Interface("lan") != nil || len(f.Names("interface")) != 0 {
		t.Error("there are interfaces")
	}
}

func TestAnInterfaceIsItsNamesDeviceByDefault(t *testing.T) {
	f := load(t, "[interface.eth1]\n[interface.eth0]\nmtu = 1500\n")
	if i := f.Interface("eth1"); i == nil || i.Device != "eth1" || i.Hook != config.HookAuto || i.Bypass || i.MTU != 0 {
		t.Errorf("interface is %+v", i)
	}
	if got := f.Names("interface"); !slices.Equal(got, []string{"eth1", "eth0"}) {
		t.Errorf("names are %v, want them in the order of the file", got)
	}
}

func TestWhatLooksWrongButIsRight(t *testing.T) {
	tests := map[string]string{
		"one link-local address on two links": "[interface.a]\naddresses = [\"fe80::1/64\"]\n[interface.b]\naddresses = [\"fe80::1/64\"]\n",
		"a host address inside a subnet":      "[interface.a]\naddresses = [\"192.0.2.1/32\"]\n[interface.b]\naddresses = [\"192.0.2.2/24\"]\n",
		"both ends of a /31":                  "[interface.a]\naddresses = [\"192.0.2.0/31\"]\n[interface.b]\naddresses = [\"192.0.2.3/31\"]\n",
		"the zero address of a /127":          "[interface.a]\naddresses = [\"2001:db8::/127\"]\n",
		"two addresses of one subnet":         "[interface.a]\naddresses = [\"192.0.2.1/24\", \"192.0.2.2/24\"]\n",
		"XDP with the bypass":                 "[interface.a]\nhook = \"xdp\"\nbypass = true\n",
		"the smallest MTU for IPv6":           "[interface.a]\nmtu = 1280\naddresses = [\"2001:db8::1/64\"]\n",
		"a section as inline table":           "router = { name = \"attic\" }\n",
		"a section by dotted keys":            "router.name = \"attic\"\nrouter.log = \"warn\"\n",
		"a parent heading without keys":       "[interface]\n[interface.a]\nmtu = 1500\n",
		"a parent heading behind its child":   "[interface.a]\nmtu = 1500\n[interface]\n",
		"a listener on IPv6 loopback":         "[metrics]\nlisten = \"[::1]:9100\"\n",
		"a VLAN's device":                     "[interface.a]\ndevice = \"eth0.100\"\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) { load(t, text) })
	}
}

func TestPositionsAreOfTheNearestThingTheFileHas(t *testing.T) {
	f := load(t, "[all]\n  numbers = [ 1,\n2 ]\nlists = [[], [\"x\"]]\n[[all.inners]]\ncount = 1\n[each.one]\ncount = 5\n")
	tests := map[string]string{
		"all":                  "weft.toml:1:2",
		"all.numbers":          "weft.toml:2:13",
		"all.numbers[1]":       "weft.toml:3:1",
		"all.numbers[7]":       "weft.toml:2:13",
		"all.lists[1][0]":      "weft.toml:4:15",
		"all.inners[0]":        "weft.toml:5:7",
		"all.inners[0].count":  "weft.toml:6:9",
		"all.inners[0].name":   "weft.toml:5:7",
		"all.text":             "weft.toml:1:2",
		"each.one.count":       "weft.toml:8:9",
		"each.two":             "weft.toml:7:2",
		"metrics.listen":       "weft.toml",
		"":                     "weft.toml",
		"all.numbers[x].[].]]": "weft.toml:2:13",
	}
	for path, want := range tests {
		if got := f.Position(path).String(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}

func TestWrongValuesOfEachType(t *testing.T) {
	tests := map[string]string{
		"small = 256":                     "from 0 to 255",
		"unsigned = -1":                   "from 0 to 9223372036854775807",
		"wait = \"30\"":                   `write "30s", or ms, m, h, d`,
		"wait = 30":                       "write a duration in quotes",
		"wait = \"soon\"":                 `like "30s", "500ms", "5m", "1h30m" or "7d"`,
		"wait = \"1ms\"":                  "at least 1s",
		"wait = \"2h\"":                   "at most 1h",
		"prefix = \"192.0.2.1/24\"":       `write "192.0.2.0/24"`,
		"numbers = 1":                     "write numbers = [1]",
		"inner = { count = 0 }":           "from 1 to 9223372036854775807",
		"inner = { name = \"x\" }":        "add count = ...",
		"inner = { count = 1, nam = \"\"": closing,
		"levels = [\"info\", \"noisy\"]":  "one of debug, info",
		"truth = \"perhaps\"":             "write truth = true or false, without quotes",
		"unread = 1":                      "one of address, bare, inner, inners, large, level, levels, listen, lists, numbers, ports, prefix, small, text, truth, unsigned, wait, waits",
	}
	for text, want := range tests {
		_, problems := config.Load("weft.toml", []byte("[all]\n"+text+"\n"), testSections())
		if len(problems) != 1 || problems[0].Remedy != want || problems[0].Pos.Line != 2 {
			t.Errorf("%s: got %v, want one problem on line 2 with the remedy %q", text, problems, want)
		}
	}
}

const closing = "close it with ] or }"

func TestAWrongValueLeavesTheDefault(t *testing.T) {
	f, problems := config.Load("weft.toml", []byte("[all]\ntext = 1\n[router]\nlog = \"loud\"\n"), testSections())
	if !state.HasErrors(problems) || f.Get("all", "").(*everything).Text != "default" || f.Router().Log != config.LogInfo {
		t.Errorf("text %q, log %q, problems %v", f.Get("all", "").(*everything).Text, f.Router().Log, problems)
	}
}

func TestTheSchemaSaysWhatTheTagsSay(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Required             []string
			Properties           map[string]map[string]any
			AdditionalProperties any
			PropertyNames        map[string]string
		}
	}
	if err := json.Unmarshal(config.Schema(testSections()), &s); err != nil {
		t.Fatal(err)
	}
	router := s.Properties["router"]
	if router.Properties["name"]["default"] != "weft" || router.Properties["log"]["enum"] == nil || router.AdditionalProperties != false {
		t.Errorf("router is %+v", router)
	}
	if s.Properties["interface"].PropertyNames["pattern"] == "" {
		t.Error("the names of interfaces have no pattern")
	}
	each := s.Properties["each"].AdditionalProperties.(map[string]any)
	if required := each["required"].([]any); len(required) != 1 || required[0] != "count" {
		t.Errorf("required are %v", required)
	}
	name := each["properties"].(map[string]any)["name"].(map[string]any)
	if _, ok := name["default"]; ok {
		t.Error("a default that depends on the section's name is in the schema")
	}
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Split(string(text), "#! ")[0])
	}
	f.Add("[all]\ninners = [{count = 1}]\nlists = [[\"a\"]]\nwait = \"1s\"\n[each.a.b]\nc.d = 1\n[[each]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, problems := config.Load("weft.toml", []byte(text), testSections())
		lines := 1 + strings.Count(text, "\n")
		for _, p := range problems {
			if p.What == "" || strings.Contains(p.String(), "\n") {
				t.Errorf("not one line: %q", p)
			}
			if p.Pos.Line < 1 || p.Pos.Line > lines || p.Pos.Column < 1 {
				t.Errorf("outside of the text: %s", p)
			}
			file.Position(p.Path)
		}
	})
}
