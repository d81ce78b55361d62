package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/features"
	"weft/internal/lab"
	"weft/internal/simulate/scenario"
	"weft/internal/state"
)

const repository = "../.."

// page is one Markdown page, named by its path in the repository.
type page struct {
	name, text string
}

// block is what stands between two fences; info is what follows the first.
type block struct {
	info, text string
	line       int
}

func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	add := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page{name, string(text)})
	}
	add(filepath.Join(repository, "README.md"))
	add(filepath.Join(repository, "CHANGELOG.md"))
	add(filepath.Join(repository, "bpf", "LICENSE.md"))
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 15 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// blocks returns the fenced blocks of a page.
func (p page) blocks() []block {
	var list []block
	var open *block
	for i, line := range strings.Split(p.text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{info: info, line: i + 1}
		case fence:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return list
}

// inline returns what stands in `single` back quotes outside of blocks.
func (p page) inline() []string {
	var list []string
	fenced := false
	for _, line := range strings.Split(p.text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 {
					list = append(list, part)
				}
			}
		}
	}
	return list
}

func TestEveryTOMLBlockOfThePagesIsRight(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "docs/reference/") {
			continue // shows every key at once; tools/configdoc tests it
		}
		for _, b := range p.blocks() {
			switch b.info {
			case "toml":
				_, problems := config.Load(p.name, []byte(b.text), features.Sections())
				for _, problem := range problems {
					t.Errorf("block at line %d: %s", b.line, problem)
				}
			case "toml lab":
				if _, err := lab.Parse(lab.Source{Name: "page", File: p.name, Text: []byte(b.text)}); err != nil {
					t.Errorf("block at line %d: %v", b.line, err)
				}
			case "toml sim":
				if _, err := scenario.Load(scenario.Source{Name: "page", File: p.name, Text: []byte(b.text)}); err != nil {
					t.Errorf("block at line %d: %v", b.line, err)
				}
			default:
				continue
			}
			seen++
		}
	}
	if seen < 5 {
		t.Errorf("found %d blocks only: are they still marked as toml?", seen)
	}
}

// inPreparation are verbs that pages may speak of before they are there. Once
// they are, their lines are checked like any other.
var inPreparation = []string{"trace", "bench", "sim", "import", "flush", "kick", "block"}

var weftCommand = regexp.MustCompile(`(?:^|[\s(;&|])weft( [^|&;)#<>]*)`)

// checkCommandLine returns what is wrong with the words of a command line, "" if
// nothing. whole says that the arguments must be complete, too.
func checkCommandLine(words []string, whole bool) string {
	root := rootCommand()
	c, rest, err := root.Find(words)
	if err != nil || c == root {
		if len(words) > 0 && slices.Contains(inPreparation, words[0]) {
			return ""
		}
		return "there is no such command"
	}
	if c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && strings.ToLower(rest[0]) == rest[0] {
		for _, noun := range strings.Split(rest[0], "|") {
			if sub, _, err := root.Find([]string{c.Name(), noun}); err != nil || sub == c {
				return c.Name() + " has no " + noun
			}
		}
		return ""
	}
	if slices.Contains(rest, "--help") {
		return ""
	}
	if err := c.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if whole && !c.HasSubCommands() {
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			return err.Error()
		}
	}
	return ""
}

func TestEveryCommandOfThePagesIsRight(t *testing.T) {
	seen := 0
	check := func(page, text string, whole bool) {
		for _, found := range weftCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(found[1])
			if len(words) == 0 || strings.ToUpper(words[0]) == words[0] && words[0][0] != '-' {
				continue // weft COMMAND stands for any
			}
			seen++
			if words[0] == "--help" {
				continue
			}
			if wrong := checkCommandLine(words, whole); wrong != "" {
				t.Errorf("%s: weft%s: %s", page, found[1], wrong)
			}
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.info != "sh" {
				continue
			}
			for line := range strings.Lines(b.text) {
				check(p.name, strings.TrimSpace(line), true)
			}
		}
		for _, code := range p.inline() {
			if strings.HasPrefix(code, "weft ") {
				check(p.name, code, false)
			}
		}
	}
	if seen < 30 {
		t.Errorf("found %d commands only: are the blocks still marked as sh?", seen)
	}
}

func TestTheCheckOfCommandsFindsMistakes(t *testing.T) {
	for line, right := range map[string]bool{
		"check weft.toml":             true,
		"check a b":                   false,
		"check --jsno weft.toml":      false,
		"chekc weft.toml":             false,
		"show counters --watch":       true,
		"show conuters":               false,
		"show interfaces|drops":       true,
		"lab shell nat64/router -- x": true,
		"lab run nat64 --kep":         false,
		"no-such-verb":                false,
	} {
		if wrong := checkCommandLine(strings.Fields(line), true); (wrong == "") != right {
			t.Errorf("weft %s: found %q", line, wrong)
		}
	}
}

var target = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestEveryLinkBetweenPagesLeadsSomewhere(t *testing.T) {
	headings := map[string][]string{}
	list := pages(t)
	for _, p := range list {
		for line := range strings.Lines(p.text) {
			if text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
				headings[p.name] = append(headings[p.name], anchor(text))
			}
		}
	}
	for _, p := range list {
		for _, found := range target.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(found[1], "#")
			file := filepath.Join(filepath.Dir(p.name), path)
			if path == "" {
				file = p.name
			}
			if _, err := os.Stat(filepath.Join(repository, file)); err != nil && !unmeasured(p.name, file) {
				t.Errorf("%s: link to %s: there is no such file", p.name, found[1])
			}
			if fragment != "" && !slices.Contains(headings[file], fragment) {
				t.Errorf("%s: link to %s: no such heading (there are %s)", p.name, found[1], strings.Join(headings[file], ", "))
			}
		}
	}
}

// unmeasured tells that a page on a measurement speaks of its result before
// there is one. Once the figures are there, so must be all that is made of them.
func unmeasured(page, file string) bool {
	name, result := strings.CutPrefix(strings.TrimSuffix(page, ".md"), "docs/benchmarks/")
	if !result || filepath.Dir(file) != "docs/benchmarks" {
		return false
	}
	_, err := os.Stat(filepath.Join(repository, "docs/benchmarks", name+".json"))
	return err != nil
}

// anchor makes of a heading what links call it.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}

var outcomeName = regexp.MustCompile("`((?:forward|slow|pass|drop)-[a-z0-9-]+)`")

// docs/reference/outcomes.md has them all (tools/configdoc); no page may speak
// of one that is not there.
func TestPagesSpeakOfOutcomesThatExist(t *testing.T) {
	known := map[string]bool{}
	for o := state.OutcomeNone + 1; o < state.OutcomeCount; o++ {
		known[o.String()] = true
	}
	seen := 0
	for _, p := range pages(t) {
		for _, found := range outcomeName.FindAllStringSubmatch(p.text, -1) {
			seen++
			if !known[found[1]] {
				t.Errorf("%s: there is no outcome %s", p.name, found[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d outcomes are named: are they still in back quotes?", seen)
	}
}

// numberedCheck is a check's heading in what a lab prints.
var numberedCheck = regexp.MustCompile(`(?m)^ +([0-9]+)\. (.+)$`)

func TestTheReadmeShowsTheDemoAsItIs(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := lab.Find("nat64")
	if err != nil {
		t.Fatal(err)
	}
	s, err := lab.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), strings.Trim(s.Picture, "\n")) {
		t.Error("the picture is another than the scenario's")
	}
	for _, n := range s.Nodes {
		if n.Weft != "" && !strings.Contains(string(readme), strings.TrimSpace(n.Weft)) {
			t.Errorf("the configuration of %s is another than the scenario's", n.Name)
		}
	}
	if want := fmt.Sprintf("All %d checks passed", len(s.Checks)); !strings.Contains(string(readme), want) {
		t.Errorf("what it prints at the end is %q", want)
	}
	for _, found := range numberedCheck.FindAllStringSubmatch(string(readme), -1) {
		n, _ := strconv.Atoi(found[1]) // digits
		if n < 1 || n > len(s.Checks) || !strings.EqualFold(s.Checks[n-1].Name, found[2]) {
			t.Errorf("check %d is not %q", n, found[2])
		}
	}
}

// peerLine is a line that users copy to the other end of a pseudowire, or to a
// guest on a port; deviceOptions are what a lab gives a guest in another place.
var (
	peerLine      = regexp.MustCompile(`^ *(ip (?:l2tp|link) .+|-netdev .+|vec0:.+|pre-up .+|post-down .+|iface .+|address .+|netmask .+)$`)
	deviceOptions = regexp.MustCompile(`^-netdev |^vec0:| -device .*$|,mac=[0-9a-f:]+|id=n[^,]*,`)
)

func TestWhatUsersCopyToTheOtherEndIsWhatLabsUse(t *testing.T) {
	sources, err := lab.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, s := range sources {
		all.Write(s.Text)
	}
	seen := map[string]int{}
	for _, p := range pages(t) {
		if p.name != "docs/features/pseudowire.md" && p.name != "docs/features/bridge.md" {
			continue
		}
		var lines []string
		for _, b := range p.blocks() {
			if b.info == "" {
				lines = append(lines, strings.Split(b.text, "\n")...)
			}
		}
		for _, line := range append(lines, p.inline()...) {
			found := peerLine.FindStringSubmatch(line)
			if found == nil || strings.HasSuffix(line, "show DEVICE") {
				continue
			}
			seen[p.name]++
			if line := deviceOptions.ReplaceAllString(found[1], ""); !strings.Contains(all.String(), line) {
				t.Errorf("%s: no lab has %s", p.name, line)
			}
		}
	}
	if seen["docs/features/pseudowire.md"] < 12 || seen["docs/features/bridge.md"] < 6 {
		t.Errorf("only %v lines: are they still written so?", seen)
	}
}

// What the page about failover has users write for BIRD and keepalived is what
// the labs run, but for devices, numbers and places.
func TestThePageAboutFailoverHasTheLabsConfigurations(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs/features/session-sync.md"))
	if err != nil {
		t.Fatal(err)
	}
	plain := func(s string) string {
		s = strings.NewReplacer("eth1", "lan", "eth0", "wan", "router_id left", "router_id right").Replace(s)
		s = regexp.MustCompile(`script ".*"`).ReplaceAllString(s, "script")
		s = regexp.MustCompile(`(priority|_refresh) \d+`).ReplaceAllString(s, "$1")
		return strings.Join(strings.Fields(s), " ")
	}
	for name, file := range map[string]string{"failover": "keepalived.conf", "failover-bgp": "bird.conf"} {
		source, err := lab.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := lab.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range s.Nodes {
			if n.Name == "right" && !strings.Contains(plain(string(text)), plain(n.Files[file])) {
				t.Errorf("the page has not got %s of the lab %s:\n%s", file, name, n.Files[file])
			}
		}
	}
}

func TestThePackagedConfigurationIsRight(t *testing.T) {
	file := filepath.Join(repository, "packaging/weft.toml")
	_, problems, err := daemon.Load(file)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	// and so is what it has commented out, all at once
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(text), "forwarding = true\n")
	var b strings.Builder
	for line := range strings.Lines(examples) {
		line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		if strings.HasPrefix(line, "[") || strings.Contains(line, " = ") {
			b.WriteString(line)
		}
	}
	_, problems = config.Load("packaging/weft.toml", []byte(b.String()), features.Sections())
	for _, p := range problems {
		t.Error(p)
	}
	if !strings.Contains(b.String(), "[nat64.main]") {
		t.Error("the example of a translator was not found")
	}
}

func TestTheUnitRunsCommandsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "packaging/weft.service"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(text)) {
		_, command, ok := strings.Cut(line, "=/usr/bin/weft ")
		if !ok {
			continue
		}
		commands++
		if wrong := checkCommandLine(strings.Fields(command), true); wrong != "" {
			t.Errorf("%s: %s", strings.TrimSpace(line), wrong)
		}
	}
	if commands < 3 {
		t.Errorf("it runs weft %d times, want check, run and check again", commands)
	}
}
