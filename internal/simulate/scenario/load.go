package scenario

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/config"
	"weft/internal/simulate"
	"weft/internal/state"
)

//go:embed scenarios
var embedded embed.FS

// Scenario is a file that was read, ready to be run.
type Scenario struct {
	Name  string
	Spec  Spec
	Setup simulate.Setup
}

// Source is a scenario's text and where it came from.
type Source struct {
	Name string
	File string // for messages
	Text []byte
	Read func(name string) ([]byte, error) // files beside it
}

// Invalid is what is wrong with a scenario, or with what was set beside it.
type Invalid []state.Problem

func (i Invalid) Error() string {
	lines := make([]string, len(i))
	for k, p := range i {
		lines[k] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Names returns the names of the scenarios that are part of the program.
func Names() ([]string, error) {
	entries, err := embedded.ReadDir("scenarios")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Find returns the scenario of that name or, where the name has a slash or ends
// in .toml, the file.
func Find(name string) (Source, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".toml") {
		text, err := os.ReadFile(name)
		if err != nil {
			return Source{}, fmt.Errorf("read scenario: %w", err)
		}
		read := func(other string) ([]byte, error) {
			if !filepath.IsAbs(other) {
				other = filepath.Join(filepath.Dir(name), other)
			}
			return os.ReadFile(other)
		}
		return Source{Name: strings.TrimSuffix(filepath.Base(name), ".toml"), File: name, Text: text, Read: read}, nil
	}
	names, err := Names()
	if err != nil {
		return Source{}, err
	}
	if !slices.Contains(names, name) {
		return Source{}, fmt.Errorf("no scenario is called %q: there are %s, or give a file that ends in .toml", name, strings.Join(names, ", "))
	}
	text, err := embedded.ReadFile("scenarios/" + name + ".toml")
	read := func(other string) ([]byte, error) { return embedded.ReadFile("scenarios/" + other) }
	return Source{Name: name, File: name + ".toml", Text: text, Read: read}, err
}

// Load reads a scenario. Each of set is KEY=VALUE, as path.slow.delay=50ms, and
// takes the place of what the file says. The error is an Invalid with all
// problems found.
func Load(src Source, set ...string) (*Scenario, error) {
	f, problems := config.Load(src.File, src.Text, Sections())
	if state.HasErrors(problems) {
		return nil, Invalid(problems)
	}
	s := Spec{General: f.Get("scenario", "").(*General)}
	for _, n := range f.Names("path") {
		s.Paths = append(s.Paths, Named[Path]{n, f.Get("path", n).(*Path)})
	}
	for _, n := range f.Names("stream") {
		s.Streams = append(s.Streams, Named[Stream]{n, f.Get("stream", n).(*Stream)})
	}
	for _, one := range set {
		if err := s.Set(one); err != nil {
			return nil, err
		}
	}
	c := compiler{read: src.Read, refuse: func(path, what, remedy string) {
		problems = append(problems, state.Problem{Severity: state.Error, Pos: f.Position(path), Path: path, What: what, Remedy: remedy})
	}}
	setup := c.compile(&s)
	if state.HasErrors(problems) {
		state.SortProblems(problems)
		return nil, Invalid(problems)
	}
	return &Scenario{Name: src.Name, Spec: s, Setup: setup}, nil
}

// Set changes one value, given as KEY=VALUE.
func (s *Spec) Set(assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	parts := strings.Split(key, ".")
	if !ok || len(parts) < 2 {
		return fmt.Errorf("set %q: write KEY=VALUE, like path.slow.delay=50ms", assignment)
	}
	section, rest := s.section(parts)
	if section == nil {
		return fmt.Errorf("set %s: the scenario has no such section: it has %s", key, strings.Join(s.sections(), ", "))
	}
	if err := assign(reflect.ValueOf(section).Elem(), rest, value); err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}

func (s *Spec) section(parts []string) (section any, rest []string) {
	switch {
	case parts[0] == "scenario":
		return s.General, parts[1:]
	case len(parts) < 3:
		return nil, nil
	case parts[0] == "path":
		for _, p := range s.Paths {
			if p.Name == parts[1] {
				return p.Value, parts[2:]
			}
		}
	case parts[0] == "stream":
		for _, p := range s.Streams {
			if p.Name == parts[1] {
				return p.Value, parts[2:]
			}
		}
	}
	return nil, nil
}

// sections returns the sections that Set can change.
func (s *Spec) sections() []string {
	all := []string{"scenario"}
	for _, p := range s.Paths {
		all = append(all, "path."+p.Name)
	}
	for _, p := range s.Streams {
		all = append(all, "stream."+p.Name)
	}
	return all
}

func assign(v reflect.Value, path []string, text string) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Tag.Get("toml") != path[0] {
			continue
		}
		if len(path) > 1 {
			if v.Field(i).Kind() != reflect.Struct {
				return fmt.Errorf("%s has no keys of its own", path[0])
			}
			return assign(v.Field(i), path[1:], text)
		}
		return assignValue(v.Field(i), f.Tag, text)
	}
	var keys []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("toml"); name != "" {
			keys = append(keys, name)
		}
	}
	return fmt.Errorf("there is no key %s: there are %s", path[0], strings.Join(keys, ", "))
}

func assignValue(v reflect.Value, tag reflect.StructTag, text string) error {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf(`%q is not a duration, like 500ms`, text)
		}
		v.SetInt(int64(d))
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		least, _ := strconv.ParseInt(tag.Get("min"), 10, 64)
		most, unbounded := strconv.ParseInt(tag.Get("max"), 10, 64)
		if err != nil || n < least || unbounded == nil && n > most {
			return fmt.Errorf("%q is not a whole number from %d up to what the key allows", text, least)
		}
		v.SetInt(n)
	case v.Kind() == reflect.String:
		if values := tag.Get("enum"); values != "" && !slices.Contains(strings.Split(values, ","), text) {
			return fmt.Errorf("%q is none of %s", text, strings.ReplaceAll(values, ",", ", "))
		}
		v.SetString(text)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(strings.FieldsFunc(text, func(r rune) bool { return r == ',' })))
	default:
		return fmt.Errorf("it cannot be set to one value")
	}
	return nil
}
