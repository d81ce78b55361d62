package foreign_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/nat64"
	"weft/internal/foreign"
	"weft/internal/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// asked is what weft check still wants to know of a result.
var asked = map[string]string{
	"jool-prefix-alone": "no IPv6 node would have an IPv4 address",
}

func read(name string, text []byte) (string, []state.Problem) {
	o := foreign.Options{File: name, LAN: "eth1", WAN: "eth0"}
	if strings.HasPrefix(name, "tayga") {
		return foreign.Tayga(text, o)
	}
	return foreign.Jool(text, o)
}

func TestEachFileBecomesAWeftTomlThatIsRight(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		base := filepath.Base(file)
		name := strings.TrimSuffix(base, filepath.Ext(base))
		if filepath.Ext(base) == ".toml" {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, problems := read(base, text)
			for _, p := range problems {
				if p.Severity != state.Warning || p.Pos.Line == 0 || p.Remedy == "" {
					t.Errorf("no more than a warning, with its line and a remedy: %s", p)
				}
			}
			golden := filepath.Join("testdata", name+".toml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("gives\n%s\nwant, by %s,\n%s", got, golden, want)
			}
			check(t, got, asked[name])
		})
	}
	if count < 5 {
		t.Errorf("%d files, want 5 at least", count)
	}
}

// check has weft itself read a result: there is one thing to ask, or nothing.
func check(t *testing.T, toml, asks string) {
	t.Helper()
	sections := append(config.CoreSections(), nat64.Section())
	if strings.Contains(toml, "mode = \"stateful\"") && !bytes.Contains(config.Schema(sections), []byte("\"stateful\"")) {
		return // weft check does not know this mode yet
	}
	_, problems := config.Load("weft.toml", []byte(toml), sections)
	problems = slices.DeleteFunc(problems, func(p state.Problem) bool { return p.Severity == state.Warning })
	switch {
	case asks == "" && len(problems) > 0, len(problems) > 1:
		t.Errorf("weft check says %v of\n%s", problems, toml)
	case asks != "" && (len(problems) != 1 || !strings.Contains(problems[0].What, asks)):
		t.Errorf("weft check says %v, want %q", problems, asks)
	}
}

func TestWhatCannotBeReadIsAnErrorWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"jool", "", "jool:1:1: error: unexpected EOF"},
		{"jool", "{\n\"global\": {\n]", "jool:3:1: error: "},
		{"jool", "{}", "is not there, nor is eamt"},
		{"jool", "[1]", "is not a JSON object"},
		{"jool", "{\"global\": {\"pool6\": \"2001:db8::/96\"}} {}", "something behind"},
		{"jool", strings.Repeat("[", 40), "nested deeper"},
		{"jool", "{\n\"global\":\n{\"pool6\": 7}}", "jool:3:1: error: global.pool6: is not a string"},
		{"jool", "{\"global\": {\"pool6\": \"10.0.0.0/8\"}}", "wrong family"},
		{"jool", "{\"eamt\": {}}", "is not an array"},
		{"jool", "{\"eamt\": [\n{\"ipv6 prefix\": \"2001:db8::/120\"}]}", "jool:2:1: error: eamt[0]: has not both"},
		{"jool", "{\"bib\": [{\"protocol\": \"SCTP\", \"ipv6 address\": \"2001:db8::1#80\", \"ipv4 address\": \"192.0.2.1#80\"}]}", "has the protocol \"SCTP\""},
		{"jool", "{\"bib\": [{\"protocol\": \"TCP\", \"ipv6 address\": \"2001:db8::1#99999\", \"ipv4 address\": \"192.0.2.1#80\"}]}", "each with its port"},
		{"jool", "{\"global\": {\"udp-timeout\": \"soon\"}}", "soon is no time"},
		{"tayga", "", "neither prefix nor map"},
		{"tayga", "\nmap 192.0.2.1", "tayga:2:1: error: map: has 1 words"},
		{"tayga", "map 192.0.2.1 192.0.2.2", "wrong family"},
		{"tayga", "prefix nonsense", "neither an address nor a prefix"},
		{"tayga", "ipv4-addr 2001:db8::1", "is no IPv4 address"},
	} {
		_, problems := read(c.name, []byte(c.text))
		if !slices.ContainsFunc(problems, func(p state.Problem) bool {
			return p.Severity == state.Error && strings.Contains(p.String(), c.says)
		}) {
			t.Errorf("%s %q: %v, want %q", c.name, c.text, problems, c.says)
		}
	}
}

// Whatever is read, the result is TOML, unless there is an error.
func fuzz(f *testing.F, program, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		toml, problems := read(program, text)
		if state.HasErrors(problems) {
			return
		}
		_, problems = config.Load("weft.toml", []byte(toml), append(config.CoreSections(), nat64.Section()))
		for _, p := range problems {
			if p.Path == "" {
				t.Errorf("%s, of\n%s", p, toml)
			}
		}
	})
}

func FuzzJool(f *testing.F)  { fuzz(f, "jool", "testdata/jool*.json") }
func FuzzTayga(f *testing.F) { fuzz(f, "tayga", "testdata/tayga*.conf") }
